import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Answers lines of "assignor;topic:count,...;member|instance|topic,...|topic:partition,...;..." with
 * "member=topic:partition,...;..." as Kafka's own assignors do. Topics are small numbers, members keep their order.
 */
public class Assign {
    record Subscription(Optional<String> instanceId, Set<Uuid> subscribedTopicIds) implements MemberSubscription {
        public Optional<String> rackId() { return Optional.empty(); }
    }

    record Had(Map<Uuid, Set<Integer>> partitions) implements MemberAssignment { }

    static Uuid id(String number) { return new Uuid(0, Long.parseLong(number)); }

    static String[] parts(String text) { return text.isEmpty() ? new String[0] : text.split(","); }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(";")));
        }
    }

    static String answer(String[] fields) {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String topic : parts(fields[1])) counts.put(id(topic.split(":")[0]), Integer.parseInt(topic.split(":")[1]));
        Map<String, Subscription> subscriptions = new LinkedHashMap<>();
        Map<String, Had> had = new HashMap<>();
        Set<String> taken = new HashSet<>();
        for (int i = 2; i < fields.length; i++) {
            String[] member = fields[i].split("\\|", -1);
            Set<Uuid> topics = new LinkedHashSet<>();
            for (String topic : parts(member[2])) topics.add(id(topic));
            subscriptions.put(member[0], new Subscription(member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]), topics));
            Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
            for (String place : parts(member[3])) {
                taken.add(place);
                partitions.computeIfAbsent(id(place.split(":")[0]), unused -> new TreeSet<>()).add(Integer.parseInt(place.split(":")[1]));
            }
            had.put(member[0], new Had(Collections.unmodifiableMap(partitions)));
        }
        boolean same = new HashSet<>(subscriptions.values().stream().map(Subscription::subscribedTopicIds).toList()).size() <= 1;
        GroupSpec group = new GroupSpec() {
            public Collection<String> memberIds() { return subscriptions.keySet(); }
            public SubscriptionType subscriptionType() { return same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS; }
            public boolean isPartitionAssigned(Uuid topic, int partition) { return taken.contains(topic.getLeastSignificantBits() + ":" + partition); }
            public boolean isPartitionAssignable(Uuid topic, int partition) { return true; }
            public MemberSubscription memberSubscription(String member) { return subscriptions.get(member); }
            public MemberAssignment memberAssignment(String member) { return had.get(member); }
        };
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
        };
        ConsumerGroupPartitionAssignor assignor = fields[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        StringBuilder text = new StringBuilder();
        Map<String, MemberAssignment> found = assignor.assign(group, topics).members();
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
