import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.TreeMap;
import org.apache.kafka.admin.AdminUtils;
import org.apache.kafka.admin.BrokerMetadata;

/** Reads lines "partitions factor startIndex firstPartition id[:rack] ..." and prints what Kafka assigns for each. */
public class AssignReplicas {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split(" ");
            List<BrokerMetadata> brokers = new ArrayList<>();
            for (int i = 4; i < words.length; i++) {
                String[] parts = words[i].split(":");
                Optional<String> rack = parts.length > 1 ? Optional.of(parts[1]) : Optional.empty();
                brokers.add(new BrokerMetadata(Integer.parseInt(parts[0]), rack));
            }
            Map<Integer, List<Integer>> assigned = AdminUtils.assignReplicasToBrokers(
                brokers, Integer.parseInt(words[0]), Integer.parseInt(words[1]),
                Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            System.out.println(new TreeMap<>(assigned));
        }
    }
}
