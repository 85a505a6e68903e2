import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/**
 * Java's share consumers as load: benchmarks/share_load.py sends one command a line, and gets one line of JSON for each.
 * One process takes all commands of a row, so that what is measured is measured after its virtual machine is warm.
 *
 *   consume TOPIC GROUP RECORDS MEMBERS implicit|explicit   until as many are accepted; the clock runs from the first one
 *   latency TOPIC GROUP RECORDS                             one at a time, from send to its acknowledgement's answer
 *   first TOPIC TIMES                                       a new group, from subscribe to its first record
 *   hold TOPIC GROUP                                        one member has records and says nothing; another one waits
 *   redelivered                                             when the other one got the first of them
 */
class ShareLoad {
    static final int NO_END_S = 170;
    static final String RUN = Long.toString(System.nanoTime(), 36);
    static String servers;
    static CompletableFuture<Instant> redelivered;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            String answer = switch (words[0]) {
                case "consume" -> consume(words[1], words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]), words[5]);
                case "latency" -> latency(words[1], words[2], Integer.parseInt(words[3]));
                case "first" -> first(words[1], Integer.parseInt(words[2]));
                case "hold" -> hold(words[1], words[2]);
                case "redelivered" -> "{\"at_s\": " + seconds(redelivered.get(NO_END_S, TimeUnit.SECONDS)) + "}";
                default -> throw new IllegalArgumentException(line);
            };
            System.out.println(answer);
            System.out.flush();
        }
        System.exit(0); // Members that wait do not hold it up.
    }

    static String consume(String topic, String group, long records, int members, String mode) throws Exception {
        begin(group);
        AtomicLong accepted = new AtomicLong(), bytes = new AtomicLong(), firstAt = new AtomicLong(), lastAt = new AtomicLong();
        double[] before = cpu();
        ExecutorService threads = Executors.newFixedThreadPool(members);
        List<Future<?>> running = new ArrayList<>();
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(NO_END_S);
        for (int i = 0; i < members; i++) running.add(threads.submit(() -> {
            try (var member = member(group, topic, mode)) {
                while (accepted.get() < records) {
                    if (System.nanoTime() > until) throw new IllegalStateException(accepted + " of " + records + " records in " + NO_END_S + " s");
                    var found = member.poll(Duration.ofMillis(200));
                    if (found.isEmpty()) continue;
                    firstAt.compareAndSet(0, System.nanoTime());
                    long size = 0;
                    for (var record : found) {
                        size += record.serializedValueSize();
                        if (mode.equals("explicit")) member.acknowledge(record, AcknowledgeType.ACCEPT);
                    }
                    bytes.addAndGet(size);
                    if (accepted.addAndGet(found.count()) >= records) lastAt.compareAndSet(0, System.nanoTime());
                }
            }
            return null;
        }));
        for (var one : running) one.get();
        threads.shutdown();
        double[] after = cpu();
        return "{\"seconds\": " + (lastAt.get() - firstAt.get()) / 1e9 + ", \"records\": " + accepted + ", \"bytes\": " + bytes
            + ", \"user_s\": " + (after[0] - before[0]) + ", \"system_s\": " + (after[1] - before[1]) + "}";
    }

    static String latency(String topic, String group, int records) throws Exception {
        begin(group);
        long[] times = new long[records];
        try (var producer = new KafkaProducer<byte[], byte[]>(settings("linger.ms=0", "acks=all"), new ByteArraySerializer(), new ByteArraySerializer());
             var member = member(group, topic, "explicit")) {
            for (int i = -1; i < records; i++) { // The first one waits for the group.
                long began = System.nanoTime();
                producer.send(new ProducerRecord<>(topic, new byte[100]));
                ConsumerRecords<byte[], byte[]> found;
                do {
                    found = member.poll(Duration.ofSeconds(5));
                    if (System.nanoTime() - began > TimeUnit.SECONDS.toNanos(60)) throw new IllegalStateException("a record did not come in 60 s");
                } while (found.isEmpty());
                found.forEach(record -> member.acknowledge(record, AcknowledgeType.ACCEPT));
                member.commitSync().values().forEach(error -> error.ifPresent(thrown -> { throw thrown; }));
                if (i >= 0) times[i] = System.nanoTime() - began;
            }
        }
        Arrays.sort(times);
        StringBuilder text = new StringBuilder("{\"records\": " + records);
        for (int percent : new int[] {50, 90, 99})
            text.append(", \"p").append(percent).append("_us\": ").append(times[Math.min(records - 1, records * percent / 100)] / 1e3);
        return text.append(", \"max_us\": ").append(times[records - 1] / 1e3).append("}").toString();
    }

    static String first(String topic, int times) throws Exception {
        double[] took = new double[times];
        for (int i = 0; i < times; i++) {
            String group = "first-" + RUN + "-" + System.nanoTime();
            begin(group);
            long began = System.nanoTime();
            try (var member = member(group, topic, "implicit")) {
                while (member.poll(Duration.ofSeconds(5)).isEmpty())
                    if (System.nanoTime() - began > TimeUnit.SECONDS.toNanos(60)) throw new IllegalStateException("no record in 60 s");
                took[i] = (System.nanoTime() - began) / 1e6;
            }
        }
        Arrays.sort(took);
        return "{\"median_ms\": " + took[times / 2] + ", \"max_ms\": " + took[times - 1] + "}";
    }

    static String hold(String topic, String group) throws Exception {
        begin(group);
        var holder = member(group, topic, "explicit");
        ConsumerRecords<byte[], byte[]> held = ConsumerRecords.empty();
        for (int i = 0; held.isEmpty() && i < 12; i++) held = holder.poll(Duration.ofSeconds(5));
        redelivered = new CompletableFuture<>();
        CompletableFuture<Void> waits = new CompletableFuture<>();
        Thread other = new Thread(() -> {
            try (var member = member(group, topic, "implicit")) {
                // What it gets before anything fails is not held by the other member.
                for (long quiet = System.nanoTime(); System.nanoTime() - quiet < 3e9; )
                    if (!member.poll(Duration.ofMillis(200)).isEmpty()) quiet = System.nanoTime();
                waits.complete(null);
                while (member.poll(Duration.ofMillis(200)).isEmpty());
                redelivered.complete(Instant.now());
            } catch (Throwable failure) {
                waits.completeExceptionally(failure);
                redelivered.completeExceptionally(failure);
            }
        });
        other.setDaemon(true);
        other.start();
        waits.get(60, TimeUnit.SECONDS);
        return "{\"held\": " + held.count() + "}";
    }

    static double seconds(Instant moment) { return moment.getEpochSecond() + moment.getNano() / 1e9; }

    /** The group begins with the first record of a topic. */
    static void begin(String group) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(settings())) {
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), List.of(change))).all().get();
        }
    }

    static KafkaShareConsumer<byte[], byte[]> member(String group, String topic, String mode) {
        var settings = settings("group.id=" + group, "share.acknowledgement.mode=" + mode);
        var member = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        member.subscribe(List.of(topic));
        return member;
    }

    static Properties settings(String... others) {
        Properties all = new Properties();
        all.put("bootstrap.servers", servers);
        for (String each : others) all.put(each.split("=", 2)[0], each.split("=", 2)[1]);
        return all;
    }

    /** Seconds of user and system time that this process has taken. */
    static double[] cpu() throws Exception {
        String stat = Files.readString(Path.of("/proc/self/stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return new double[] {Long.parseLong(fields[11]) / 100.0, Long.parseLong(fields[12]) / 100.0};
    }
}
