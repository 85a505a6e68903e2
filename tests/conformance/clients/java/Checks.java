import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's producer, consumer and administrator against one broker or several.
 *
 * <p>Checks HOST:PORT,... (every broker) runs every check and prints a line of JSON for each: {"check": name, "ok": true or
 * false, "detail": what went wrong}. One run of the JVM does them all, since its start costs more than they do. Members of
 * groups wait for heartbeats most of the time: each check of them has a thread of its own, the others take turns.
 */
public final class Checks {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final long BASE_TIMESTAMP_MS = 1_700_000_000_000L;
    private static final long TIMESTAMP_STEP_MS = 1_000L;
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};

    private final String bootstrap;
    private final short replicas;
    private final Admin admin;

    private interface Check {
        void run() throws Exception;
    }

    public static void main(String[] arguments) throws InterruptedException {
        Checks checks = new Checks(arguments[0]);
        List<Thread> waiting = new ArrayList<>();
        checks.ofMembers().forEach((name, check) -> waiting.add(new Thread(() -> report(name, check))));
        waiting.forEach(Thread::start);
        checks.others().forEach(Checks::report);
        for (Thread thread : waiting) {
            thread.join();
        }
        checks.admin.close(Duration.ofSeconds(1));
        System.exit(0); // a client that hangs must not keep the process
    }

    private Checks(String bootstrap) {
        this.bootstrap = bootstrap;
        this.replicas = (short) bootstrap.split(",").length;
        this.admin = Admin.create(settings());
    }

    private Map<String, Check> ofMembers() {
        Map<String, Check> checks = new java.util.LinkedHashMap<>();
        checks.put("group resumes", () -> groupResumes("classic"));
        checks.put("group shared", () -> groupShared("classic"));
        checks.put("static member restarted", () -> staticRestart("classic"));
        checks.put("members removed", () -> membersRemoved("classic"));
        checks.put("consumer protocol resumes", () -> consumerProtocol(this::groupResumes));
        checks.put("consumer protocol shared", () -> consumerProtocol(this::groupShared));
        checks.put("consumer protocol static member restarted", () -> consumerProtocol(this::staticRestart));
        checks.put("consumer protocol members removed", () -> consumerProtocol(this::membersRemoved));
        return checks;
    }

    private Map<String, Check> others() {
        Map<String, Check> checks = new java.util.LinkedHashMap<>();
        for (String codec : CODECS) {
            checks.put("round trip " + codec, () -> roundTrip(codec, false));
            checks.put("round trip " + codec + " idempotent", () -> roundTrip(codec, true));
        }
        for (String acks : new String[] {"0", "1", "all"}) {
            checks.put("acks " + acks, () -> acks(acks));
        }
        checks.put("middle of a batch", this::middleOfBatch);
        checks.put("append time", this::appendTime);
        checks.put("offsets for times", this::offsetsForTimes);
        checks.put("special timestamps", this::specialTimestamps);
        checks.put("groups administered", this::groupsAdministered);
        checks.put("topics administered", this::topicsAdministered);
        checks.put("topics refused", this::topicsRefused);
        checks.put("partitions added", this::partitionsAdded);
        checks.put("topic configs", this::topicConfigs);
        checks.put("broker configs", this::brokerConfigs);
        checks.put("records deleted", this::recordsDeleted);
        checks.put("cluster described", this::clusterDescribed);
        checks.put("log dirs described", this::logDirsDescribed);
        checks.put("replicas in log dirs", this::replicasInLogDirs);
        checks.put("leaders elected", this::leadersElected);
        checks.put("reassignments listed", this::reassignmentsListed);
        checks.put("offset out of range", this::offsetOutOfRange);
        checks.put("record too large", this::recordTooLarge);
        checks.put("topic created by producer", this::autoCreation);
        checks.put("illegal topic name", this::illegalTopicName);
        checks.put("transactions committed and aborted", this::transactions);
        checks.put("offsets in a transaction", this::offsetsInTransaction);
        checks.put("transactional producer fenced", this::transactionalProducerFenced);
        checks.put("transactions administered", this::transactionsAdministered);
        return checks;
    }

    private static void report(String name, Check check) {
        String detail = "";
        try {
            check.run();
        } catch (Throwable problem) {
            StackTraceElement at = Arrays.stream(problem.getStackTrace())
                .filter(frame -> frame.getClassName().startsWith("Checks")).findFirst()
                .orElse(problem.getStackTrace()[0]);
            detail = problem + " at line " + at.getLineNumber();
        }
        System.out.println("{\"check\": " + quoted(name) + ", \"ok\": " + detail.isEmpty()
            + ", \"detail\": " + quoted(detail) + "}");
        System.out.flush();
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }

    // ---- what is sent -------------------------------------------------------------------------------------------

    /** The samples of client_samples.py. */
    private static List<ProducerRecord<byte[], byte[]>> samples(String topic, int count) {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            byte[] key = utf8("key-" + number);
            byte[] value = utf8("value-" + number + "-" + "abcdefghij".repeat(60));
            switch (number % 8) {
                case 0: key = null; break;
                case 1: value = null; break;
                case 2: key = new byte[0]; value = new byte[0]; break;
                case 4:
                    value = new byte[1024];
                    for (int i = 0; i < value.length; i++) {
                        value[i] = (byte) i;
                    }
                    break;
                default: break;
            }
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                topic, 0, BASE_TIMESTAMP_MS + number * TIMESTAMP_STEP_MS, key, value);
            if (number % 8 == 3) {
                record.headers().add("trace", new byte[] {0, 1, (byte) 255}).add("void", null)
                    .add("blank", new byte[0]).add("trace", utf8("zwei-\u00fc"));
            }
            records.add(record);
        }
        return records;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private Properties settings(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) {
            properties.put(pairs[i], pairs[i + 1]);
        }
        return properties;
    }

    private KafkaProducer<byte[], byte[]> producer(String... pairs) {
        Properties properties = settings("linger.ms", "20", "max.block.ms", "15000");
        properties.putAll(settings(pairs));
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties properties = settings(
            "enable.auto.commit", "false", "auto.offset.reset", "none", "fetch.max.wait.ms", "50");
        properties.putAll(settings(pairs));
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private List<Long> send(KafkaProducer<byte[], byte[]> client, List<ProducerRecord<byte[], byte[]>> records)
            throws Exception {
        List<Future<RecordMetadata>> waiting = new ArrayList<>();
        for (ProducerRecord<byte[], byte[]> record : records) {
            waiting.add(client.send(record));
        }
        client.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> future : waiting) {
            offsets.add(future.get(30, TimeUnit.SECONDS).offset());
        }
        return offsets;
    }

    private void sendSamples(String topic, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            send(client, samples(topic, count));
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> receive(KafkaConsumer<byte[], byte[]> client, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (records.size() < count) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(records.size() + " of " + count + " records in " + TIMEOUT);
            }
            for (ConsumerRecord<byte[], byte[]> record : client.poll(Duration.ofMillis(500))) {
                records.add(record);
            }
        }
        return records;
    }

    private static List<Long> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
        List<Long> offsets = new ArrayList<>();
        records.forEach(record -> offsets.add(record.offset()));
        return offsets;
    }

    private static List<Long> range(long start, long end) {
        List<Long> numbers = new ArrayList<>();
        for (long number = start; number < end; number++) {
            numbers.add(number);
        }
        return numbers;
    }

    private static String fresh(String prefix) {
        return prefix + "-" + UUID.randomUUID().toString().substring(0, 13);
    }

    private String topic(int partitions, String... configs) throws Exception {
        String name = fresh("topic");
        create(new NewTopic(name, partitions, replicas), configs);
        return name;
    }

    private void create(NewTopic topic, String... configs) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int i = 0; i < configs.length; i += 2) {
            settings.put(configs[i], configs[i + 1]);
        }
        await(admin.createTopics(List.of(topic.configs(settings))).all());
        untilTheBrokerKnows(topic.name());
    }

    /** In KRaft mode the controller answers, and the broker hears of the topic a moment later. */
    private void untilTheBrokerKnows(String topic) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (true) {
            try {
                await(admin.describeTopics(List.of(topic)).allTopicNames());
                return;
            } catch (ExecutionException unknown) {
                boolean isNew = unknown.getCause() instanceof UnknownTopicOrPartitionException;
                if (!isNew || System.nanoTime() > deadline) {
                    throw unknown;
                }
                Thread.sleep(20);
            }
        }
    }

    private static <T> T await(Future<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    private static void equal(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    private static void that(boolean condition, Object found) {
        if (!condition) {
            throw new AssertionError("found " + found);
        }
    }

    private static void refused(Class<? extends Exception> kind, Check action) throws Exception {
        try {
            action.run();
        } catch (ExecutionException wrapped) {
            equal(kind, wrapped.getCause().getClass());
            return;
        } catch (Exception direct) {
            equal(kind, direct.getClass());
            return;
        }
        throw new AssertionError("expected " + kind + ", found no error");
    }

    private static void eventually(java.util.concurrent.Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + TIMEOUT);
            }
            Thread.sleep(50);
        }
    }

    private static void same(ProducerRecord<byte[], byte[]> sent, ConsumerRecord<byte[], byte[]> found) {
        that(Arrays.equals(sent.key(), found.key()), "another key at offset " + found.offset());
        that(Arrays.equals(sent.value(), found.value()), "another value at offset " + found.offset());
        equal(sent.timestamp(), found.timestamp());
        equal(TimestampType.CREATE_TIME, found.timestampType());
        Header[] sentHeaders = sent.headers().toArray();
        Header[] foundHeaders = found.headers().toArray();
        equal(sentHeaders.length, foundHeaders.length);
        for (int i = 0; i < sentHeaders.length; i++) {
            equal(sentHeaders[i].key(), foundHeaders[i].key());
            that(Arrays.equals(sentHeaders[i].value(), foundHeaders[i].value()), "header " + foundHeaders[i]);
        }
    }

    // ---- producing and consuming --------------------------------------------------------------------------------

    private void roundTrip(String codec, boolean idempotent) throws Exception {
        String topic = topic(1);
        List<ProducerRecord<byte[], byte[]>> sent = samples(topic, 40);
        try (KafkaProducer<byte[], byte[]> client = producer(
                "compression.type", codec, "enable.idempotence", String.valueOf(idempotent))) {
            equal(range(0, 40), send(client, sent));
        }
        List<ConsumerRecord<byte[], byte[]>> found = read(topic, 0, 40);
        equal(range(0, 40), offsets(found));
        for (int i = 0; i < sent.size(); i++) {
            same(sent.get(i), found.get(i));
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> read(String topic, long start, int count) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> client = consumer()) {
            client.assign(List.of(partition));
            client.seek(partition, start);
            return receive(client, count);
        }
    }

    private void acks(String acks) throws Exception {
        String topic = topic(1);
        // Also tells that the new leader serves: without acknowledgement nobody else would.
        eventually(() -> listed(topic, OffsetSpec.latest()).offset() == 0);
        try (KafkaProducer<byte[], byte[]> client = producer("acks", acks, "enable.idempotence", "false")) {
            List<Long> offsets = send(client, samples(topic, 8));
            equal(acks.equals("0") ? Collections.nCopies(8, -1L) : range(0, 8), offsets);
        }
        equal(range(0, 8), offsets(read(topic, 0, 8)));
    }

    private void middleOfBatch() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> client = producer("compression.type", "lz4")) {
            send(client, samples(topic, 40));
        }
        equal(range(17, 40), offsets(read(topic, 17, 23)));
    }

    private void appendTime() throws Exception {
        String topic = topic(1, "message.timestamp.type", "LogAppendTime");
        long before = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            RecordMetadata metadata = await(client.send(samples(topic, 1).get(0)));
            that(metadata.timestamp() >= before - 1000, metadata.timestamp());
        }
        ConsumerRecord<byte[], byte[]> record = read(topic, 0, 1).get(0);
        equal(TimestampType.LOG_APPEND_TIME, record.timestampType());
        that(record.timestamp() >= before - 1000, record.timestamp());
    }

    private void offsetsForTimes() throws Exception {
        String topic = topic(1);
        sendSamples(topic, 20);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> client = consumer()) {
            equal(Map.of(partition, 0L), client.beginningOffsets(List.of(partition)));
            equal(Map.of(partition, 20L), client.endOffsets(List.of(partition)));
            long at12 = BASE_TIMESTAMP_MS + 12 * TIMESTAMP_STEP_MS;
            OffsetAndTimestamp found = client.offsetsForTimes(Map.of(partition, at12)).get(partition);
            equal(12L, found.offset());
            equal(at12, found.timestamp());
            equal(null, client.offsetsForTimes(Map.of(partition, at12 * 2)).get(partition));
        }
    }

    private ListOffsetsResult.ListOffsetsResultInfo listed(String topic, OffsetSpec spec) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return await(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition));
    }

    private void specialTimestamps() throws Exception {
        String topic = topic(1);
        List<ProducerRecord<byte[], byte[]>> sent = samples(topic, 10);
        long late = BASE_TIMESTAMP_MS + 3_600_000L;
        sent.set(6, new ProducerRecord<>(topic, 0, late, utf8("late"), utf8("late")));
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            send(client, sent);
        }
        equal(0L, listed(topic, OffsetSpec.earliest()).offset());
        equal(10L, listed(topic, OffsetSpec.latest()).offset());
        ListOffsetsResult.ListOffsetsResultInfo max = listed(topic, OffsetSpec.maxTimestamp());
        equal(6L, max.offset());
        equal(late, max.timestamp());
        equal(4L, listed(topic, OffsetSpec.forTimestamp(BASE_TIMESTAMP_MS + 4 * TIMESTAMP_STEP_MS)).offset());
        equal(0L, listed(topic, OffsetSpec.earliestLocal()).offset());
    }

    private List<String> values(String topic, String isolation) {
        try (KafkaConsumer<byte[], byte[]> client = consumer("isolation.level", isolation)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            client.assign(List.of(partition));
            client.seekToBeginning(List.of(partition));
            long end = client.endOffsets(List.of(partition)).get(partition);
            List<String> values = new ArrayList<>();
            while (client.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : client.poll(Duration.ofMillis(200))) {
                    values.add(new String(record.value(), StandardCharsets.UTF_8));
                }
            }
            return values;
        }
    }

    private void transactions() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> client = producer("transactional.id", fresh("tx"))) {
            client.initTransactions();
            for (int number = 0; number < 4; number++) {
                client.beginTransaction();
                client.send(new ProducerRecord<>(topic, 0, null, utf8("value " + number)));
                client.flush();
                if (number == 2) {
                    equal(List.of("value 0"), values(topic, "read_committed"));
                }
                if (number % 2 == 0) {
                    client.commitTransaction();
                } else {
                    client.abortTransaction();
                }
            }
        }
        eventually(() -> values(topic, "read_committed").equals(List.of("value 0", "value 2")));
        equal(List.of("value 0", "value 1", "value 2", "value 3"), values(topic, "read_uncommitted"));
    }

    private void offsetsInTransaction() throws Exception {
        String topic = topic(1);
        String output = topic(1);
        sendSamples(topic, 6);
        String group = fresh("group");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> reader = consumer("group.id", group, "auto.offset.reset", "earliest");
                KafkaProducer<byte[], byte[]> client = producer("transactional.id", fresh("tx"))) {
            client.initTransactions();
            reader.subscribe(List.of(topic));
            equal(6, receive(reader, 6).size());
            for (boolean commit : new boolean[] {false, true}) {
                client.beginTransaction();
                client.send(new ProducerRecord<>(output, 0, null, utf8("out")));
                client.sendOffsetsToTransaction(
                    Map.of(partition, new OffsetAndMetadata(commit ? 6 : 3)), reader.groupMetadata());
                if (commit) {
                    client.commitTransaction();
                } else {
                    client.abortTransaction();
                    equal(null, reader.committed(Set.of(partition)).get(partition));
                }
            }
            equal(6L, reader.committed(Set.of(partition)).get(partition).offset());
        }
    }

    private void transactionalProducerFenced() throws Exception {
        String topic = topic(1);
        String id = fresh("tx");
        try (KafkaProducer<byte[], byte[]> zombie = producer("transactional.id", id);
                KafkaProducer<byte[], byte[]> heir = producer("transactional.id", id)) {
            zombie.initTransactions();
            zombie.beginTransaction();
            send(zombie, List.of(new ProducerRecord<>(topic, 0, null, utf8("zombie's"))));
            heir.initTransactions();
            heir.beginTransaction();
            heir.send(new ProducerRecord<>(topic, 0, null, utf8("heir's")));
            refused(ProducerFencedException.class, zombie::commitTransaction);
            heir.commitTransaction();
        }
        eventually(() -> values(topic, "read_committed").equals(List.of("heir's")));
    }

    private void transactionsAdministered() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        String id = fresh("tx");
        try (KafkaProducer<byte[], byte[]> client = producer("transactional.id", id)) {
            client.initTransactions();
            client.beginTransaction();
            send(client, List.of(new ProducerRecord<>(topic, 0, null, utf8("open"))));
            TransactionDescription described =
                await(admin.describeTransactions(List.of(id)).description(id));
            equal(TransactionState.ONGOING, described.state());
            equal(Set.of(partition), described.topicPartitions());
            equal(60_000L, described.transactionTimeoutMs());
            TransactionListing listed = await(admin.listTransactions().all()).stream()
                .filter(one -> one.transactionalId().equals(id)).findFirst().orElseThrow();
            equal(described.producerId(), listed.producerId());
            ProducerState state = await(admin.describeProducers(List.of(partition)).partitionResult(partition))
                .activeProducers().get(0);
            equal(described.producerId(), state.producerId());
            equal(0L, state.currentTransactionStartOffset().getAsLong());
            await(admin.fenceProducers(List.of(id)).all());
            refused(ProducerFencedException.class, client::commitTransaction);
        }
        eventually(() -> await(admin.describeTransactions(List.of(id)).description(id)).state()
            == TransactionState.EMPTY);
        equal(List.of(), values(topic, "read_committed"));
    }

    private interface CheckOfProtocol {
        void run(String protocol) throws Exception;
    }

    /** The check with KIP-848's protocol where the cluster has it; where it has not, members are told so. */
    private void consumerProtocol(CheckOfProtocol check) throws Exception {
        if (await(admin.describeFeatures().featureMetadata()).finalizedFeatures().containsKey("group.version")) {
            check.run("consumer");
            return;
        }
        try (KafkaConsumer<byte[], byte[]> client = consumer("group.id", fresh("group"), "group.protocol", "consumer")) {
            client.subscribe(List.of(topic(1)));
            refused(UnsupportedVersionException.class, () -> receive(client, 1));
        }
    }

    /** Two members share what one had; one leaves, and the other has all again. */
    private void groupShared(String protocol) throws Exception {
        String topic = topic(4);
        String group = fresh("group");
        String[] settings = {"group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest"};
        try (KafkaConsumer<byte[], byte[]> first = consumer(settings)) {
            first.subscribe(List.of(topic));
            assigned(4, first);
            try (KafkaConsumer<byte[], byte[]> second = consumer(settings)) {
                second.subscribe(List.of(topic));
                assigned(2, first, second);
                Set<TopicPartition> all = new HashSet<>(first.assignment());
                all.addAll(second.assignment());
                equal(4, all.size());
                ConsumerGroupDescription described =
                    await(admin.describeConsumerGroups(List.of(group)).all()).get(group);
                equal(2, described.members().size());
                equal(protocol, described.type().toString().toLowerCase());
                that(await(admin.listConsumerGroups().all()).stream().anyMatch(
                    one -> one.groupId().equals(group) && one.type().equals(Optional.of(described.type()))), "no group");
            }
            assigned(4, first);
        }
    }

    @SafeVarargs
    private static void assigned(int count, KafkaConsumer<byte[], byte[]>... members) throws Exception {
        eventually(() -> {
            for (KafkaConsumer<byte[], byte[]> member : members) {
                member.poll(Duration.ofMillis(100));
            }
            return Arrays.stream(members).allMatch(member -> member.assignment().size() == count);
        });
    }

    /** A static member that is restarted has what it had, and nobody else notices: the generation stays. */
    private void staticRestart(String protocol) throws Exception {
        String topic = topic(4);
        String group = fresh("group");
        String[] settings = {
            "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest", "group.instance.id", "b"};
        try (KafkaConsumer<byte[], byte[]> other = consumer("group.id", group, "group.protocol", protocol,
                "auto.offset.reset", "earliest", "group.instance.id", "a")) {
            other.subscribe(List.of(topic));
            Set<TopicPartition> had;
            int generation;
            try (KafkaConsumer<byte[], byte[]> first = consumer(settings)) {
                first.subscribe(List.of(topic));
                assigned(2, other, first);
                had = first.assignment();
                generation = first.groupMetadata().generationId();
                equal(generation, other.groupMetadata().generationId());
            }
            try (KafkaConsumer<byte[], byte[]> second = consumer(settings)) {
                second.subscribe(List.of(topic));
                assigned(2, other, second);
                equal(had, second.assignment());
                equal(generation, second.groupMetadata().generationId());
                equal(generation, other.groupMetadata().generationId());
            }
        }
    }

    /** An administrator takes members out: one that was stopped, by its instance id, then whoever is left. */
    private void membersRemoved(String protocol) throws Exception {
        String topic = topic(4);
        String group = fresh("group");
        try (KafkaConsumer<byte[], byte[]> left = consumer(
                "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest")) {
            left.subscribe(List.of(topic));
            try (KafkaConsumer<byte[], byte[]> stopped = consumer("group.id", group, "group.protocol", protocol,
                    "auto.offset.reset", "earliest", "group.instance.id", "i")) {
                stopped.subscribe(List.of(topic));
                assigned(2, left, stopped);
            }
            equal(2, await(admin.describeConsumerGroups(List.of(group)).all()).get(group).members().size());
            await(admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("i")))).all());
            assigned(4, left);
            equal(1, await(admin.describeConsumerGroups(List.of(group)).all()).get(group).members().size());
            refused(UnknownMemberIdException.class, () -> await(admin.removeMembersFromConsumerGroup(group,
                new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("i")))).all()));
            await(admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
        }
    }

    private void groupResumes(String protocol) throws Exception {
        String topic = topic(1);
        String group = fresh("group");
        sendSamples(topic, 12);
        TopicPartition partition = new TopicPartition(topic, 0);
        OffsetAndMetadata commit = new OffsetAndMetadata(5, Optional.of(0), "half-way \u00fc");
        try (KafkaConsumer<byte[], byte[]> first = consumer(
                "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest", "max.poll.records", "5")) {
            first.subscribe(List.of(topic));
            equal(range(0, 5), offsets(receive(first, 5)));
            first.commitSync(Map.of(partition, commit));
        }
        try (KafkaConsumer<byte[], byte[]> second = consumer("group.id", group, "group.protocol", protocol)) {
            equal(Map.of(partition, commit), second.committed(Set.of(partition)));
            second.subscribe(List.of(topic));
            equal(range(5, 12), offsets(receive(second, 7)));
        }
    }

    private void groupsAdministered() throws Exception {
        String topic = topic(1);
        String group = fresh("group");
        sendSamples(topic, 1);
        try (KafkaConsumer<byte[], byte[]> client = consumer(
                "group.id", group, "group.instance.id", "static-1", "auto.offset.reset", "earliest")) {
            client.subscribe(List.of(topic));
            receive(client, 1);
            client.commitSync();
            ConsumerGroupDescription described =
                await(admin.describeConsumerGroups(List.of(group)).all()).get(group);
            equal("range", described.partitionAssignor());
            equal(1, described.members().size());
            equal(Optional.of("static-1"), described.members().iterator().next().groupInstanceId());
            equal(Set.of(new TopicPartition(topic, 0)),
                described.members().iterator().next().assignment().topicPartitions());
            that(await(admin.listConsumerGroups().all()).stream().anyMatch(g -> g.groupId().equals(group)), "no group");
            refused(GroupNotEmptyException.class, () -> await(admin.deleteConsumerGroups(List.of(group)).all()));
        }
        Map<TopicPartition, OffsetAndMetadata> offsets =
            await(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        equal(1L, offsets.get(new TopicPartition(topic, 0)).offset());
        await(admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("static-1")))).all());
        await(admin.deleteConsumerGroups(List.of(group)).all());
        refused(GroupIdNotFoundException.class, () -> await(admin.deleteConsumerGroups(List.of(group)).all()));
    }

    // ---- administration -----------------------------------------------------------------------------------------

    private TopicDescription described(String topic) throws Exception {
        return await(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
    }

    /** Whether the broker that is asked knows no such topic: brokers learn of changes one after the other. */
    private boolean isUnknown(String topic) throws Exception {
        try {
            return described(topic) == null;
        } catch (ExecutionException wrapped) {
            equal(UnknownTopicOrPartitionException.class, wrapped.getCause().getClass());
            return true;
        }
    }

    private void topicsAdministered() throws Exception {
        String name = topic(3, "cleanup.policy", "compact");
        eventually(() -> described(name).partitions().size() == 3);
        TopicDescription description = described(name);
        that(!description.isInternal(), "internal");
        equal((int) replicas, description.partitions().get(2).isr().size());
        equal(description.partitions().get(2).leader(), description.partitions().get(2).isr().get(0));
        that(description.topicId() != null && !description.topicId().toString().equals("AAAAAAAAAAAAAAAAAAAAAA"),
            description.topicId());
        that(await(admin.listTopics().names()).contains(name), "not listed");
        refused(TopicExistsException.class, () -> create(new NewTopic(name, 1, (short) 1)));
        await(admin.deleteTopics(List.of(name)).all());
        eventually(() -> !await(admin.listTopics().names()).contains(name));
        refused(UnknownTopicOrPartitionException.class, () -> await(admin.deleteTopics(List.of(name)).all()));
        eventually(() -> isUnknown(name));

        String defaults = fresh("topic");
        create(new NewTopic(defaults, Optional.empty(), Optional.empty()));
        eventually(() -> !isUnknown(defaults));
        equal(1, described(defaults).partitions().size());
        String tested = fresh("topic");
        await(admin.createTopics(List.of(new NewTopic(tested, 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).all());
        that(!await(admin.listTopics().names()).contains(tested), "created by validateOnly");
    }

    private void topicsRefused() throws Exception {
        refused(InvalidTopicException.class, () -> create(new NewTopic("no spaces", 1, (short) 1)));
        refused(InvalidTopicException.class, () -> create(new NewTopic("..", 1, (short) 1)));
        refused(InvalidTopicException.class, () -> create(new NewTopic("x".repeat(250), 1, (short) 1)));
        refused(InvalidPartitionsException.class, () -> create(new NewTopic(fresh("t"), 0, (short) 1)));
        refused(InvalidReplicationFactorException.class, () -> create(new NewTopic(fresh("t"), 1, (short) 9)));
        int id = await(admin.describeCluster().nodes()).iterator().next().id();
        refused(InvalidReplicaAssignmentException.class,
            () -> create(new NewTopic(fresh("t"), Map.of(0, List.of(id, id)))));
        refused(InvalidReplicaAssignmentException.class,
            () -> create(new NewTopic(fresh("t"), Map.of(1, List.of(id)))));
        refused(InvalidConfigurationException.class, () -> topic(1, "no.such.setting", "1"));
        refused(InvalidConfigurationException.class, () -> topic(1, "retention.ms", "soon"));
    }

    private void partitionsAdded() throws Exception {
        String name = topic(2);
        await(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all());
        eventually(() -> described(name).partitions().size() == 5);
        refused(InvalidPartitionsException.class,
            () -> await(admin.createPartitions(Map.of(name, NewPartitions.increaseTo(3))).all()));
        refused(UnknownTopicOrPartitionException.class,
            () -> await(admin.createPartitions(Map.of(fresh("nowhere"), NewPartitions.increaseTo(3))).all()));
    }

    private Config configs(ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        return await(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    private void alter(String topic, String name, String value, AlterConfigOp.OpType kind) throws Exception {
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(new ConfigEntry(name, value), kind));
        await(admin.incrementalAlterConfigs(
            Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), operations)).all());
    }

    private void topicConfigs() throws Exception {
        String topic = topic(1, "retention.ms", "123456");
        Config configs = configs(ConfigResource.Type.TOPIC, topic);
        equal("123456", configs.get("retention.ms").value());
        equal(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, configs.get("retention.ms").source());
        equal("1073741824", configs.get("segment.bytes").value());
        equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, configs.get("segment.bytes").source());
        alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
        eventually(() -> configs(ConfigResource.Type.TOPIC, topic).get("cleanup.policy").value()
            .equals("delete,compact"));
        alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE);
        eventually(() -> configs(ConfigResource.Type.TOPIC, topic).get("retention.ms").value().equals("604800000"));
        refused(InvalidConfigurationException.class,
            () -> alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET));
        refused(UnknownTopicOrPartitionException.class, () -> configs(ConfigResource.Type.TOPIC, fresh("nowhere")));
    }

    private void brokerConfigs() throws Exception {
        String id = await(admin.describeCluster().nodes()).iterator().next().idString();
        Config configs = configs(ConfigResource.Type.BROKER, id);
        equal("1073741824", configs.get("log.segment.bytes").value());
        equal(ConfigEntry.ConfigSource.DEFAULT_CONFIG, configs.get("log.segment.bytes").source());
        equal(ConfigEntry.ConfigType.INT, configs.get("log.segment.bytes").type());
        equal(ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, configs.get("log.dirs").source());
        that(configs.get("log.dirs").isReadOnly(), configs.get("log.dirs"));
        that(configs.entries().size() > 100, configs.entries().size());
    }

    private void recordsDeleted() throws Exception {
        String topic = topic(1);
        sendSamples(topic, 20);
        TopicPartition partition = new TopicPartition(topic, 0);
        equal(7L, await(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(7)))
            .lowWatermarks().get(partition)).lowWatermark());
        equal(7L, listed(topic, OffsetSpec.earliest()).offset());
        equal(range(7, 20), offsets(read(topic, 7, 13)));
        refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class,
            () -> await(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(21))).all()));
    }

    private void clusterDescribed() throws Exception {
        equal(22, await(admin.describeCluster().clusterId()).length());
        Collection<Node> nodes = await(admin.describeCluster().nodes());
        Set<String> addresses = new TreeSet<>();
        nodes.forEach(node -> addresses.add(node.host() + ":" + node.port()));
        equal(new TreeSet<>(List.of(bootstrap.split(","))), addresses);
        that(nodes.contains(await(admin.describeCluster().controller())), "another controller");
        that(!await(admin.describeFeatures().featureMetadata()).toString().isEmpty(), "no features");
    }

    private void logDirsDescribed() throws Exception {
        String topic = topic(2);
        sendSamples(topic, 6);
        int id = described(topic).partitions().get(0).leader().id();
        Map<Integer, Long> sizes = new TreeMap<>();
        await(admin.describeLogDirs(List.of(id)).allDescriptions()).get(id).values().forEach(directory -> {
            that(directory.error() == null, directory.error());
            that(directory.totalBytes().getAsLong() > 0, directory.totalBytes());
            directory.replicaInfos().forEach((partition, info) -> {
                if (partition.topic().equals(topic)) {
                    sizes.put(partition.partition(), info.size());
                }
            });
        });
        equal(Set.of(0, 1), sizes.keySet());
        that(sizes.get(0) > 0 && sizes.get(1) == 0, sizes);
    }

    private void replicasInLogDirs() throws Exception {
        String topic = topic(1);
        sendSamples(topic, 3);
        int leader = described(topic).partitions().get(0).leader().id();
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, leader);
        var found = await(admin.describeReplicaLogDirs(List.of(replica)).all()).get(replica);
        that(found.getCurrentReplicaLogDir() != null, found);
        equal(null, found.getFutureReplicaLogDir());
        await(admin.alterReplicaLogDirs(Map.of(replica, found.getCurrentReplicaLogDir())).all());
        refused(LogDirNotFoundException.class,
            () -> await(admin.alterReplicaLogDirs(Map.of(replica, "/no/such/directory")).all()));
    }

    private void leadersElected() throws Exception {
        TopicPartition partition = new TopicPartition(topic(1), 0);
        TopicPartition unknown = new TopicPartition(fresh("nowhere"), 0);
        for (ElectionType type : ElectionType.values()) {
            Map<TopicPartition, Optional<Throwable>> answers =
                await(admin.electLeaders(type, Set.of(partition, unknown)).partitions());
            equal(ElectionNotNeededException.class, answers.get(partition).orElseThrow().getClass());
            equal(UnknownTopicOrPartitionException.class, answers.get(unknown).orElseThrow().getClass());
        }
    }

    private void reassignmentsListed() throws Exception {
        TopicPartition partition = new TopicPartition(topic(1), 0);
        equal(Map.of(), await(admin.listPartitionReassignments(Set.of(partition)).reassignments()));
        refused(NoReassignmentInProgressException.class,
            () -> await(admin.alterPartitionReassignments(Map.of(partition, Optional.empty())).all()));
        refused(InvalidReplicaAssignmentException.class, () -> await(admin.alterPartitionReassignments(
            Map.of(partition, Optional.of(new NewPartitionReassignment(List.of(4711))))).all()));
    }

    // ---- what must be refused -----------------------------------------------------------------------------------

    private void offsetOutOfRange() throws Exception {
        String topic = topic(1);
        sendSamples(topic, 3);
        refused(OffsetOutOfRangeException.class, () -> read(topic, 1000, 1));
    }

    private void recordTooLarge() throws Exception {
        String topic = topic(1, "max.message.bytes", "1000");
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            refused(RecordTooLargeException.class,
                () -> await(client.send(new ProducerRecord<>(topic, new byte[2000]))));
            equal(0L, await(client.send(new ProducerRecord<>(topic, new byte[100]))).offset());
        }
    }

    private void autoCreation() throws Exception {
        String topic = fresh("auto");
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            equal(0L, await(client.send(new ProducerRecord<>(topic, utf8("first")))).offset());
        }
        try (KafkaConsumer<byte[], byte[]> client = consumer("allow.auto.create.topics", "false")) {
            equal(List.of(), client.partitionsFor(fresh("nowhere"), TIMEOUT) == null
                ? List.of() : client.partitionsFor(fresh("nowhere"), TIMEOUT));
        }
    }

    private void illegalTopicName() throws Exception {
        try (KafkaProducer<byte[], byte[]> client = producer()) {
            refused(InvalidTopicException.class,
                () -> await(client.send(new ProducerRecord<>("no spaces", utf8("x")))));
        }
    }
}
