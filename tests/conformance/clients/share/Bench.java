import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** What scenarios of share groups need: topics, groups, members, and sentences of what a member got. */
class Bench {
    interface Body { void run() throws Throwable; }

    static final String RUN = Long.toString(System.nanoTime(), 36);
    /** Long enough for a machine that does much else; what comes is waited for, not slept for. */
    static final int SOON_MS = 60_000;
    /** How long nothing has to come, to be taken for nothing. */
    static final int QUIET_MS = 2_500;
    static String servers;
    static Admin admin;
    private static final java.util.concurrent.atomic.AtomicInteger names = new java.util.concurrent.atomic.AtomicInteger();

    static String name(String kind) { return kind + "-" + RUN + "-" + names.incrementAndGet(); }

    static String topic(int partitions, String... settings) throws Exception { return make(name("topic"), partitions, settings); }

    static String make(String topic, int partitions, String... settings) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.empty()).configs(map(settings)))).all().get();
        return topic;
    }

    /** A name of a group that begins with the first record, unless a setting says otherwise. */
    static String group(String... settings) throws Exception {
        String group = name("group");
        set(group, "share.auto.offset.reset=earliest");
        set(group, settings);
        return group;
    }

    static void set(String group, String... settings) throws Exception {
        if (settings.length == 0) return;
        List<AlterConfigOp> changes = new ArrayList<>();
        map(settings).forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), changes)).all().get();
        Thread.sleep(300); // Every broker hears of it.
    }

    static Map<String, String> map(String... settings) {
        Map<String, String> found = new HashMap<>();
        for (String each : settings) found.put(each.split("=", 2)[0], each.split("=", 2)[1]);
        return found;
    }

    static KafkaShareConsumer<byte[], String> member(String group, String topic, String... settings) {
        KafkaShareConsumer<byte[], String> member = new KafkaShareConsumer<>(memberSettings(group, settings));
        member.subscribe(List.of(topic));
        return member;
    }

    static Properties memberSettings(String group, String... settings) {
        Properties all = new Properties();
        all.put("bootstrap.servers", servers);
        all.put("group.id", group);
        all.put("share.acknowledgement.mode", "explicit");
        all.put("key.deserializer", ByteArrayDeserializer.class.getName());
        all.put("value.deserializer", StringDeserializer.class.getName());
        all.putAll(map(settings));
        return all;
    }

    static KafkaProducer<byte[], String> producer(String... settings) {
        Properties all = new Properties();
        all.put("bootstrap.servers", servers);
        all.put("linger.ms", "10000");
        all.put("batch.size", "2000000");
        all.put("max.request.size", "3000000");
        all.putAll(map(settings));
        return new KafkaProducer<>(all, new ByteArraySerializer(), new StringSerializer());
    }

    /** Records "v0", "v1", ... in batches of so many. */
    static void produce(String topic, int partition, int count, int batch) throws Exception {
        try (var producer = producer()) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, partition, null, "v" + i));
                if ((i + 1) % batch == 0) producer.flush();
            }
        }
    }

    /** The next poll that brings something, or an empty list. */
    static List<ConsumerRecord<byte[], String>> poll(KafkaShareConsumer<byte[], String> member, int withinMs) {
        long until = System.currentTimeMillis() + withinMs;
        List<ConsumerRecord<byte[], String>> found = new ArrayList<>();
        while (found.isEmpty() && System.currentTimeMillis() < until) member.poll(Duration.ofMillis(300)).forEach(found::add);
        return found;
    }

    static void all(KafkaShareConsumer<byte[], String> member, List<ConsumerRecord<byte[], String>> records, AcknowledgeType type) {
        records.forEach(record -> member.acknowledge(record, type));
    }

    static void accept(KafkaShareConsumer<byte[], String> member, List<ConsumerRecord<byte[], String>> records) {
        all(member, records, AcknowledgeType.ACCEPT);
    }

    /** "first-last x deliveries" of each run, with the partition before it where it is not 0. */
    static String runs(List<ConsumerRecord<byte[], String>> records) {
        StringBuilder text = new StringBuilder();
        for (int i = 0, j; i < records.size(); i = j) {
            ConsumerRecord<byte[], String> first = records.get(i);
            for (j = i + 1; j < records.size(); j++) {
                ConsumerRecord<byte[], String> next = records.get(j);
                if (next.partition() != first.partition() || next.offset() != first.offset() + j - i || !next.deliveryCount().equals(first.deliveryCount())) break;
            }
            text.append(i > 0 ? " " : "").append(first.partition() == 0 ? "" : first.partition() + ":");
            text.append(first.offset()).append("-").append(first.offset() + j - i - 1).append("x").append(first.deliveryCount().orElse((short) -1));
        }
        return text.toString();
    }

    /** What a commit says of each partition: "0=ok", or the error's name. */
    static String commit(KafkaShareConsumer<byte[], String> member) {
        return member.commitSync(Duration.ofSeconds(30)).entrySet().stream()
            .map(each -> each.getKey().partition() + "=" + each.getValue().map(error -> error.getClass().getSimpleName()).orElse("ok"))
            .sorted().collect(Collectors.joining(","));
    }

    /** "0:lag" of each partition of which the group has a position. */
    static String lag(String group) throws Exception {
        return admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get().entrySet().stream()
            .filter(each -> each.getValue() != null)
            .map(each -> each.getKey().partition() + ":" + each.getValue().lag().map(String::valueOf).orElse("unknown"))
            .sorted().collect(Collectors.joining(" "));
    }

    static String state(String group) throws Exception {
        var found = admin.describeShareGroups(List.of(group)).all().get().get(group);
        return found.groupState() + " " + found.members().size();
    }

    /** Waits for it; a group that nobody knows yet is "not yet". */
    static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long until = System.currentTimeMillis() + SOON_MS;
        while (true) {
            try {
                if (condition.call()) return;
            } catch (ExecutionException unknown) {
                if (!(unknown.getCause() instanceof org.apache.kafka.common.errors.GroupIdNotFoundException)) throw unknown;
            }
            if (System.currentTimeMillis() > until) throw new AssertionError("not within " + SOON_MS + " ms: " + what);
            Thread.sleep(100);
        }
    }

    static void same(Object wanted, Object found) {
        if (!wanted.equals(found)) throw new AssertionError("wanted " + wanted + ", found " + found);
    }

    static void require(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    /** The call must fail so. */
    static void fails(String error, Body call) throws Throwable {
        try {
            call.run();
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            if (!cause.getClass().getSimpleName().equals(error)) throw new AssertionError("wanted " + error + ", found " + cause, cause);
            return;
        }
        throw new AssertionError("wanted " + error + ", and nothing was thrown");
    }

    /** Runs the scenarios, four at a time, and prints a line of JSON for each. */
    static void run(Map<String, Body> scenarios, Predicate<String> wanted) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        scenarios.forEach((name, body) -> {
            if (wanted.test(name)) threads.submit(() -> report(name, body));
        });
        threads.shutdown();
        if (!threads.awaitTermination(15, TimeUnit.MINUTES)) System.exit(1);
    }

    private static void report(String name, Body body) {
        String detail = "";
        long began = System.nanoTime();
        try {
            body.run();
        } catch (Throwable failure) {
            StackTraceElement where = Arrays.stream(failure.getStackTrace()).filter(each -> each.getClassName().startsWith("Scenarios")).findFirst().orElse(null);
            detail = failure + " at " + where;
        }
        System.err.println(name + " took " + (System.nanoTime() - began) / 1_000_000 + " ms");
        String text = detail.replace("\\", "\\\\").replace("\"", "'").replaceAll("[\\r\\n\\t]+", " ");
        synchronized (System.out) {
            System.out.println("{\"check\": \"" + name + "\", \"ok\": " + detail.isEmpty() + ", \"detail\": \"" + text + "\"}");
            System.out.flush();
        }
    }
}
