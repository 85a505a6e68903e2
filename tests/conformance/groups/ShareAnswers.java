import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.SharePartitionKey;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Answers lines as Kafka's own classes of share groups do.
 *
 *   place;group;topic id;partition;count                          the coordinator's key, and the partition that keeps it
 *   combine;start;first:last:state:count,...;first:last:...       what is stored after a write, in order
 *   assign;topic:count,...;member|topic,...|topic:partition,...   member=topic:partition,...;
 */
public class ShareAnswers {
    record Subscription(Set<Uuid> subscribedTopicIds) implements MemberSubscription {
        public Optional<String> rackId() { return Optional.empty(); }
        public Optional<String> instanceId() { return Optional.empty(); }
    }

    record Had(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment { }

    static Uuid id(String number) { return new Uuid(0, Long.parseLong(number)); }

    static String[] parts(String text) { return text.isEmpty() ? new String[0] : text.split(","); }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] fields = line.split(";", -1);
            out.println(switch (fields[0]) {
                case "place" -> place(fields);
                case "combine" -> combine(fields);
                default -> assign(fields);
            });
        }
    }

    static String place(String[] fields) {
        SharePartitionKey key = SharePartitionKey.getInstance(fields[1], Uuid.fromString(fields[2]), Integer.parseInt(fields[3]));
        // ShareCoordinatorService.partitionFor
        return key.asCoordinatorKey() + " " + Utils.abs(key.asCoordinatorKey().hashCode()) % Integer.parseInt(fields[4]);
    }

    static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> found = new ArrayList<>();
        for (String batch : parts(text)) {
            String[] of = batch.split(":");
            found.add(new PersisterStateBatch(Long.parseLong(of[0]), Long.parseLong(of[1]), Byte.parseByte(of[2]), Short.parseShort(of[3])));
        }
        return found;
    }

    static String combine(String[] fields) {
        List<String> told = new ArrayList<>();
        List<PersisterStateBatch> after =
            new PersisterStateBatchCombiner(batches(fields[2]), batches(fields[3]), Long.parseLong(fields[1])).combineStateBatches();
        for (PersisterStateBatch batch : after)
            told.add(batch.firstOffset() + ":" + batch.lastOffset() + ":" + batch.deliveryState() + ":" + batch.deliveryCount());
        return String.join(",", told);
    }

    static String assign(String[] fields) {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String topic : parts(fields[1])) counts.put(id(topic.split(":")[0]), Integer.parseInt(topic.split(":")[1]));
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        Map<String, Had> had = new HashMap<>();
        for (int i = 2; i < fields.length; i++) {
            String[] member = fields[i].split("\\|", -1);
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String topic : parts(member[1])) topics.add(id(topic));
            subscriptions.put(member[0], new Subscription(topics));
            Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
            for (String place : parts(member[2]))
                partitions.computeIfAbsent(id(place.split(":")[0]), unused -> new TreeSet<>()).add(Integer.parseInt(place.split(":")[1]));
            had.put(member[0], new Had(partitions));
        }
        boolean same = new HashSet<>(subscriptions.values().stream().map(Subscription::subscribedTopicIds).toList()).size() <= 1;
        GroupSpec group = new GroupSpec() {
            public Collection<String> memberIds() { return subscriptions.keySet(); }
            public SubscriptionType subscriptionType() { return same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS; }
            public boolean isPartitionAssigned(Uuid topic, int partition) { return false; }
            public boolean isPartitionAssignable(Uuid topic, int partition) { return true; }
            public MemberSubscription memberSubscription(String member) { return subscriptions.get(member); }
            public MemberAssignment memberAssignment(String member) { return had.get(member); }
        };
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
        };
        StringBuilder text = new StringBuilder();
        Map<String, MemberAssignment> found = new SimpleAssignor().assign(group, topics).members();
        for (String member : subscriptions.keySet()) {
            List<String> places = new ArrayList<>();
            if (found.containsKey(member)) found.get(member).partitions().forEach((topic, partitions) ->
                partitions.forEach(partition -> places.add(topic.getLeastSignificantBits() + ":" + partition)));
            Collections.sort(places);
            text.append(member).append('=').append(String.join(",", places)).append(';');
        }
        return text.toString();
    }
}
