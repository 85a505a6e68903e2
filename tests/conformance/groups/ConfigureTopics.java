import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.util.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.*;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.*;
import org.slf4j.helpers.NOPLogger;

/**
 * Answers lines of "topic:partitions,...;id|source,...|sink,...|repartition:partitions,...|changelog,...|group/...;..." with
 * what Kafka's group coordinator makes of such an application: "status;message;id:tasks,...;topic to create:partitions,...".
 * A group of topics that are read together is "place,... of sources+place,... of repartition topics".
 */
public class ConfigureTopics {
    static String[] parts(String text, String by) { return text.isEmpty() ? new String[0] : text.split(by, -1); }

    static List<Short> places(String text) {
        List<Short> found = new ArrayList<>();
        for (String place : parts(text, ",")) found.add(Short.parseShort(place));
        return found;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split(";", -1)));
        }
    }

    static CoordinatorMetadataImage image(Map<String, Integer> topics) {
        return (CoordinatorMetadataImage) Proxy.newProxyInstance(
            ConfigureTopics.class.getClassLoader(), new Class<?>[] {CoordinatorMetadataImage.class},
            (self, method, asked) -> {
                if (!method.getName().equals("topicMetadata")) throw new UnsupportedOperationException(method.getName());
                Integer count = topics.get((String) asked[0]);
                if (count == null) return Optional.empty();
                return Optional.of(Proxy.newProxyInstance(
                    ConfigureTopics.class.getClassLoader(),
                    new Class<?>[] {CoordinatorMetadataImage.TopicMetadata.class},
                    (topic, question, none) -> {
                        if (!question.getName().equals("partitionCount")) throw new UnsupportedOperationException();
                        return count;
                    }));
            });
    }

    static Subtopology subtopology(String[] fields) {
        List<TopicInfo> repartitions = new ArrayList<>(), changelogs = new ArrayList<>();
        for (String part : parts(fields[3], ",")) {
            String[] named = part.split(":");
            repartitions.add(new TopicInfo().setName(named[0]).setPartitions(Integer.parseInt(named[1])));
        }
        for (String name : parts(fields[4], ",")) changelogs.add(new TopicInfo().setName(name));
        List<CopartitionGroup> groups = new ArrayList<>();
        for (String group : parts(fields[5], "/")) {
            String[] both = group.split("\\+", -1);
            groups.add(new CopartitionGroup().setSourceTopics(places(both[0])).setRepartitionSourceTopics(places(both[1])));
        }
        return new Subtopology().setSubtopologyId(fields[0]).setSourceTopics(List.of(parts(fields[1], ",")))
            .setRepartitionSinkTopics(List.of(parts(fields[2], ","))).setRepartitionSourceTopics(repartitions)
            .setStateChangelogTopics(changelogs).setCopartitionGroups(groups);
    }

    static String answer(String[] fields) {
        Map<String, Integer> topics = new HashMap<>();
        for (String part : parts(fields[0], ",")) topics.put(part.split(":")[0], Integer.parseInt(part.split(":")[1]));
        Map<String, Subtopology> subtopologies = new HashMap<>();
        for (int i = 1; i < fields.length; i++) {
            Subtopology one = subtopology(fields[i].split("\\|", -1));
            subtopologies.put(one.subtopologyId(), one);
        }
        ConfiguredTopology found;
        try {
            found = InternalTopicManager.configureTopics(
                NOPLogger.NOP_LOGGER, "group", "member", 0, new StreamsTopology(0, subtopologies), image(topics), Time.SYSTEM);
        } catch (RuntimeException refused) {
            return refused.getClass().getSimpleName() + ";" + refused.getMessage() + ";;";
        }
        StringJoiner tasks = new StringJoiner(","), created = new StringJoiner(",");
        found.subtopologies().ifPresent(all -> all.forEach((id, one) -> tasks.add(id + ":" + one.numberOfTasks())));
        new TreeMap<>(found.internalTopicsToBeCreated()).forEach((name, topic) -> created.add(name + ":" + topic.numPartitions()));
        String status = found.topicConfigurationException().map(why -> why.status().name()).orElse("");
        String message = found.topicConfigurationException().map(Throwable::getMessage).orElse("");
        return status + ";" + message + ";" + tasks + ";" + created;
    }
}
