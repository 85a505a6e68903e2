import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import org.apache.kafka.coordinator.group.streams.assignor.*;

/**
 * Answers lines of "standbys;subtopology:tasks:stateful,...;member|process|active task,...|standby task,...;..." with
 * "member=active,.../standby,...;..." as the sticky assignor of Kafka's group coordinator does. A task is
 * "subtopology.partition". Names of members and processes are characters in the order of their codes, so that a hash map
 * of up to 16 of them has the same order.
 */
public class AssignTasks {
    record Counted(int tasks, boolean stateful) { }

    static String[] parts(String text) { return text.isEmpty() ? new String[0] : text.split(","); }

    static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> found = new TreeMap<>();
        for (String task : parts(text)) {
            String[] named = task.split("\\.");
            found.computeIfAbsent(named[0], unused -> new TreeSet<>()).add(Integer.parseInt(named[1]));
        }
        return found;
    }

    static String text(Map<String, Set<Integer>> tasks) {
        List<String> found = new ArrayList<>();
        tasks.forEach((name, partitions) -> partitions.forEach(partition -> found.add(name + "." + partition)));
        Collections.sort(found);
        return String.join(",", found);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(line.split(";")));
        }
    }

    static String answer(String[] fields) {
        SortedMap<String, Counted> counts = new TreeMap<>();
        for (String part : parts(fields[1])) {
            String[] named = part.split(":");
            counts.put(named[0], new Counted(Integer.parseInt(named[1]), named[2].equals("1")));
        }
        Map<String, AssignmentMemberSpec> members = new LinkedHashMap<>();
        for (int i = 2; i < fields.length; i++) {
            String[] member = fields[i].split("\\|", -1);
            members.put(member[0], new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member[2]), tasks(member[3]), Map.of(), member[1], Map.of(),
                Map.of(), Map.of()));
        }
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() { return List.copyOf(counts.keySet()); }
            public int maxNumInputPartitions(String name) { return counts.get(name).tasks(); }
            public boolean isStateful(String name) { return counts.get(name).stateful(); }
        };
        GroupSpec group = new GroupSpecImpl(members, Map.of("num.standby.replicas", fields[0]));
        Map<String, MemberAssignment> found = new StickyTaskAssignor().assign(group, topology).members();
        StringBuilder told = new StringBuilder();
        for (String member : members.keySet()) {
            MemberAssignment one = found.get(member);
            told.append(member).append('=').append(text(one.activeTasks())).append('/').append(text(one.standbyTasks())).append(';');
        }
        return told.toString();
    }
}
