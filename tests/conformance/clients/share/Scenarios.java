import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RecordDeserializationException;
import org.apache.kafka.common.serialization.*;

/** Share groups as Java's KafkaShareConsumer and Admin see them. Each scenario holds on Apache Kafka 4.3.1, too. */
public class Scenarios extends Bench {
    static final Map<String, Body> SCENARIOS = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        servers = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", servers, "request.timeout.ms", "20000"));
        // The first group waits for the topic of the states.
        String first = topic(1);
        produce(first, 0, 1, 1);
        try (var member = member(group(), first)) { require(!poll(member, SOON_MS).isEmpty(), "the first group gets nothing"); }
        define();
        run(SCENARIOS, name -> args.length == 1 || List.of(args).contains(name));
        System.exit(0);
    }

    static void define() {
        SCENARIOS.put("implicit", Scenarios::implicit);
        SCENARIOS.put("implicit close", Scenarios::implicitClose);
        SCENARIOS.put("explicit", Scenarios::explicit);
        SCENARIOS.put("explicit close", Scenarios::explicitClose);
        SCENARIOS.put("close hands on", Scenarios::closeHandsOn);
        SCENARIOS.put("renew", Scenarios::renew);
        SCENARIOS.put("renew, then too late", Scenarios::renewThenTooLate);
        SCENARIOS.put("renew, not allowed", Scenarios::renewNotAllowed);
        SCENARIOS.put("lock over", Scenarios::lockOver);
        SCENARIOS.put("two deliveries", Scenarios::twoDeliveries);
        SCENARIOS.put("poison", Scenarios::poison);
        SCENARIOS.put("in flight bound", Scenarios::inFlightBound);
        SCENARIOS.put("record limit", Scenarios::recordLimit);
        SCENARIOS.put("record limit of partitions", Scenarios::recordLimitOfPartitions);
        SCENARIOS.put("records of 1 MiB", Scenarios::largeRecords);
        SCENARIOS.put("wakeup", Scenarios::wakeup);
        SCENARIOS.put("deserialization", Scenarios::deserialization);
        SCENARIOS.put("overlapping subscriptions", Scenarios::overlappingSubscriptions);
        SCENARIOS.put("nine members", Scenarios::nineMembers);
        SCENARIOS.put("topic later", Scenarios::topicLater);
        SCENARIOS.put("topic deleted", Scenarios::topicDeleted);
        SCENARIOS.put("read committed", () -> transactions("read_committed", "0-9x1 22-26x1 33-37x1", "44-48x1"));
        SCENARIOS.put("read uncommitted", () -> transactions("read_uncommitted", "0-9x1 11-20x1 22-31x1 33-37x1 39-48x1", ""));
        SCENARIOS.put("isolation changes", Scenarios::isolationChanges);
        SCENARIOS.put("limit changes", Scenarios::limitChanges);
        SCENARIOS.put("compacted", Scenarios::compacted);
        SCENARIOS.put("where it begins", Scenarios::whereItBegins);
        SCENARIOS.put("records deleted", Scenarios::recordsDeleted);
        SCENARIOS.put("set anew", Scenarios::setAnew);
        SCENARIOS.put("admin, members there", Scenarios::adminWithMembers);
        SCENARIOS.put("admin, group empty", Scenarios::adminOfEmpty);
        SCENARIOS.put("other kinds of groups", Scenarios::otherKinds);
        SCENARIOS.put("settings", Scenarios::settings);
    }

    // -- acknowledgements

    static void implicit() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 30, 10);
        try (var member = member(group, topic, "share.acknowledgement.mode=implicit")) {
            var records = poll(member, SOON_MS);
            same("0-29x1", runs(records));
            fails("IllegalStateException", () -> member.acknowledge(records.get(0)));
            same("", runs(poll(member, QUIET_MS)));
            eventually("all is done", () -> lag(group).equals("0:0"));
        }
        eventually("it has left", () -> state(group).equals("Empty 0"));
        try (var member = member(group, topic)) { same("", runs(poll(member, QUIET_MS))); }
    }

    /** What was not followed by another poll was perhaps not worked on. */
    static void implicitClose() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 30, 10);
        try (var member = member(group, topic, "share.acknowledgement.mode=implicit")) { same("0-29x1", runs(poll(member, SOON_MS))); }
        try (var member = member(group, topic)) { same("0-29x2", runs(poll(member, SOON_MS))); }
    }

    static void explicit() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 30, 10);
        try (var member = member(group, topic)) {
            var records = poll(member, SOON_MS);
            same("0-29x1", runs(records));
            fails("IllegalStateException", () -> member.poll(Duration.ofMillis(100)));
            fails("IllegalStateException", () -> member.acknowledge(topic, 0, 9999L, AcknowledgeType.ACCEPT));
            fails("IllegalStateException", () -> member.acknowledge("nobody", 0, 0L, AcknowledgeType.ACCEPT));
            for (var record : records) member.acknowledge(record, switch ((int) record.offset() % 3) {
                case 0 -> AcknowledgeType.ACCEPT;
                case 1 -> AcknowledgeType.RELEASE;
                default -> AcknowledgeType.REJECT;
            });
            same("0=ok", commit(member));
            same("0:10", lag(group));
            var again = poll(member, SOON_MS);
            same("1-1x2 4-4x2 7-7x2 10-10x2 13-13x2 16-16x2 19-19x2 22-22x2 25-25x2 28-28x2", runs(again));
            accept(member, again);
            same("0=ok", commit(member));
            same("", commit(member));
            same("0:0", lag(group));
        }
    }

    static void explicitClose() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 30, 10);
        try (var member = member(group, topic)) { accept(member, poll(member, SOON_MS).subList(5, 9)); }
        same("0:26", lag(group));
        try (var member = member(group, topic)) {
            var again = poll(member, SOON_MS);
            same("0-4x2 9-29x2", runs(again));
            accept(member, again);
        }
        same("0:0", lag(group));
    }

    static void closeHandsOn() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 20, 10);
        var holder = member(group, topic);
        same("0-19x1", runs(poll(holder, SOON_MS)));
        try (var other = member(group, topic)) {
            same("", runs(poll(other, QUIET_MS)));
            holder.close();
            same("0-19x2", runs(poll(other, 10_000))); // Its locks would hold for 30 s.
        }
    }

    static void renew() throws Throwable {
        String topic = topic(1), group = group("share.record.lock.duration.ms=5000");
        produce(topic, 0, 10, 5);
        try (var member = member(group, topic); var other = member(group, topic)) {
            var records = poll(member, SOON_MS);
            same("0-9x1", runs(records));
            same(Optional.of(5000), member.acquisitionLockTimeoutMs());
            accept(member, records.subList(3, 10));
            all(member, records.subList(0, 3), AcknowledgeType.RENEW);
            same("0=ok", commit(member));
            for (int i = 0; i < 4; i++) {
                same("", runs(poll(other, 2_000)));
                var renewed = poll(member, SOON_MS);
                same("0-2x1", runs(renewed));
                all(member, renewed, i < 3 ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT);
                same("0=ok", commit(member));
            }
            same("0:0", lag(group));
        }
    }

    static void renewThenTooLate() throws Throwable {
        String topic = topic(1), group = group("share.record.lock.duration.ms=1500");
        produce(topic, 0, 4, 4);
        try (var member = member(group, topic)) {
            all(member, poll(member, SOON_MS), AcknowledgeType.RENEW);
            same("0=ok", commit(member));
            Thread.sleep(4_000);
            accept(member, poll(member, SOON_MS));
            same("0=InvalidRecordStateException", commit(member));
            set(group, "share.record.lock.duration.ms=30000");
            var again = poll(member, SOON_MS);
            same("0-3x2", runs(again));
            accept(member, again);
            same("0=ok", commit(member));
        }
    }

    static void renewNotAllowed() throws Throwable {
        String topic = topic(1), group = group("share.renew.acknowledge.enable=false");
        produce(topic, 0, 4, 4);
        try (var member = member(group, topic)) {
            var records = poll(member, SOON_MS);
            member.acknowledge(records.get(0), AcknowledgeType.RENEW);
            accept(member, records.subList(1, 4));
            same("0=InvalidRecordStateException", commit(member));
        }
        same("0:4", lag(group));
    }

    // -- limits

    static void lockOver() throws Throwable {
        String topic = topic(1), group = group("share.record.lock.duration.ms=1000", "share.delivery.count.limit=3");
        produce(topic, 0, 6, 6);
        try (var member = member(group, topic)) {
            for (String wanted : List.of("0-5x1", "0-5x2", "0-0x3", "1-1x3")) {
                var records = poll(member, SOON_MS);
                same(wanted, runs(records));
                Thread.sleep(3_000);
                accept(member, records);
                // What was given for the last time is archived then, and what is below the start is passed over.
                same(wanted.endsWith("x3") ? "0=ok" : "0=InvalidRecordStateException", commit(member));
            }
        }
        eventually("what was given three times is not given again", () -> lag(group).equals("0:4"));
    }

    static void twoDeliveries() throws Throwable {
        String topic = topic(1), group = group("share.delivery.count.limit=2");
        produce(topic, 0, 100, 50);
        try (var member = member(group, topic)) {
            for (int count = 1; count <= 2; count++) {
                var records = poll(member, SOON_MS);
                same("0-99x" + count, runs(records));
                all(member, records, AcknowledgeType.RELEASE);
                same("0=ok", commit(member));
            }
            same("", runs(poll(member, QUIET_MS)));
        }
        same("0:0", lag(group));
    }

    /** Record 17 makes its members fail. */
    static void poison() throws Throwable {
        String topic = topic(1), group = group("share.delivery.count.limit=5");
        produce(topic, 0, 40, 40);
        List<String> wanted = new ArrayList<>(List.of("0-39x1", "0-39x2", "0-39x3", "0-19x4")), found = new ArrayList<>();
        for (int i = 0; i < 20; i++) wanted.add(i + "-" + i + "x5");
        wanted.add("20-39x4");
        try (var member = member(group, topic)) {
            for (var records = poll(member, SOON_MS); !records.isEmpty(); records = poll(member, QUIET_MS)) {
                found.add(runs(records));
                boolean isBad = records.stream().anyMatch(record -> record.offset() == 17);
                all(member, records, isBad ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                commit(member);
            }
        }
        same(wanted, found);
        same("0:0", lag(group));
    }

    static void inFlightBound() throws Throwable {
        String topic = topic(1), group = group("share.partition.max.record.locks=100");
        produce(topic, 0, 500, 20);
        try (var member = member(group, topic, "max.poll.records=1000"); var other = member(group, topic)) {
            var records = poll(member, SOON_MS);
            same("0-99x1", runs(records));
            same("", runs(poll(other, QUIET_MS)));
            accept(member, records);
            same("0=ok", commit(member));
            same("100-199x1", runs(poll(other, SOON_MS)));
        }
    }

    static void recordLimit() throws Throwable {
        String topic = topic(1);
        produce(topic, 0, 100, 40);
        same("7 7 7 7 7 7 7 7 7 7 7 7 7 7 2", sizes(topic, "record_limit"));
        same("40 40 20", sizes(topic, "batch_optimized"));
    }

    static String sizes(String topic, String mode) throws Throwable {
        List<String> found = new ArrayList<>();
        try (var member = member(group(), topic, "max.poll.records=7", "share.acquire.mode=" + mode)) {
            for (var records = poll(member, SOON_MS); !records.isEmpty(); records = poll(member, QUIET_MS)) {
                found.add(String.valueOf(records.size()));
                accept(member, records);
                same("0=ok", commit(member));
            }
        }
        return String.join(" ", found);
    }

    static void recordLimitOfPartitions() throws Throwable {
        String topic = topic(3), group = group();
        for (int partition = 0; partition < 3; partition++) produce(topic, partition, 50, 20);
        int count = 0;
        try (var member = member(group, topic, "max.poll.records=10", "share.acquire.mode=record_limit")) {
            while (count < 150) {
                var records = poll(member, SOON_MS);
                require(!records.isEmpty() && records.size() <= 10, records.size() + " records after " + count);
                count += records.size();
                accept(member, records);
                commit(member);
            }
        }
        same("0:0 1:0 2:0", lag(group));
    }

    static void largeRecords() throws Throwable {
        String topic = topic(1, "max.message.bytes=3000000"), large = "x".repeat(1 << 20);
        try (var producer = producer("batch.size=1", "linger.ms=0")) {
            for (int i = 0; i < 12; i++) producer.send(new ProducerRecord<>(topic, 0, null, i + large)).get();
        }
        Set<Long> seen = new TreeSet<>();
        int polls = 0;
        String group = group();
        try (var member = member(group, topic)) {
            while (seen.size() < 12) {
                var records = poll(member, SOON_MS);
                polls++;
                for (var record : records) require(record.value().length() > 1 << 20 && seen.add(record.offset()), "twice, or cut: " + record.offset());
                accept(member, records);
                same("0=ok", commit(member));
            }
        }
        require(polls < 12, "a fetch for each record");
        try (var member = member(group(), topic, "fetch.max.bytes=1000", "max.partition.fetch.bytes=1000")) { same("0-0x1", runs(poll(member, SOON_MS))); }
    }

    // -- the client

    static void wakeup() throws Throwable {
        String topic = topic(1), group = group();
        try (var member = member(group, topic)) {
            member.wakeup();
            fails("WakeupException", () -> member.poll(Duration.ofSeconds(20)));
            new Timer(true).schedule(new TimerTask() { public void run() { member.wakeup(); } }, 1_000);
            fails("WakeupException", () -> member.poll(Duration.ofSeconds(60)));
            produce(topic, 0, 3, 3);
            var records = poll(member, SOON_MS);
            same("0-2x1", runs(records));
            accept(member, records);
            same("0=ok", commit(member));
        }
    }

    public static class Picky implements Deserializer<String> {
        public String deserialize(String topic, byte[] data) {
            if (new String(data).equals("v3")) throw new IllegalArgumentException("v3");
            return new String(data);
        }
    }

    static void deserialization() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 6, 6);
        List<String> found = new ArrayList<>();
        try (var member = member(group, topic, "value.deserializer=" + Picky.class.getName())) {
            long until = System.currentTimeMillis() + SOON_MS;
            while (found.size() < 4 && System.currentTimeMillis() < until) {
                try {
                    var records = poll(member, SOON_MS);
                    found.add(runs(records));
                    accept(member, records);
                } catch (RecordDeserializationException bad) {
                    found.add("bad " + bad.offset());
                    member.acknowledge(topic, 0, bad.offset(), found.size() < 3 ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT);
                }
                member.commitSync();
            }
        }
        same(List.of("0-2x1", "bad 3", "4-5x1", "bad 3"), found);
        same("0:0", lag(group));
    }

    static void overlappingSubscriptions() throws Throwable {
        String one = topic(2), both = topic(2), two = topic(2), group = group();
        for (String topic : List.of(one, both, two)) for (int partition = 0; partition < 2; partition++) produce(topic, partition, 60, 7);
        Map<String, Integer> seen = new HashMap<>();
        try (var a = member(group, one, "share.acknowledgement.mode=implicit"); var b = member(group, two, "share.acknowledgement.mode=implicit")) {
            a.subscribe(List.of(one, both));
            b.subscribe(List.of(both, two));
            long until = System.currentTimeMillis() + SOON_MS;
            while (seen.size() < 360 && System.currentTimeMillis() < until) {
                for (var record : a.poll(Duration.ofMillis(200))) { require(!record.topic().equals(two), "not subscribed"); seen.merge(record.topic() + record.partition() + record.value(), 1, Integer::sum); }
                for (var record : b.poll(Duration.ofMillis(200))) { require(!record.topic().equals(one), "not subscribed"); seen.merge(record.topic() + record.partition() + record.value(), 1, Integer::sum); }
            }
        }
        same(360, seen.size());
        require(seen.values().stream().allMatch(times -> times == 1), "to two members");
    }

    static void nineMembers() throws Throwable {
        String topic = topic(2), group = group();
        for (int partition = 0; partition < 2; partition++) produce(topic, partition, 300, 10);
        List<KafkaShareConsumer<byte[], String>> members = new ArrayList<>();
        for (int i = 0; i < 9; i++) members.add(member(group, topic, "max.poll.records=20"));
        Map<String, Integer> seen = new HashMap<>();
        long until = System.currentTimeMillis() + SOON_MS;
        while (seen.size() < 600 && System.currentTimeMillis() < until) for (var member : members) {
            for (var record : member.poll(Duration.ofMillis(100))) { seen.merge(record.partition() + "/" + record.offset(), 1, Integer::sum); member.acknowledge(record); }
            member.commitSync();
        }
        same(600, seen.size());
        require(seen.values().stream().allMatch(times -> times == 1), "to two members");
        eventually("each member has a partition", () -> {
            for (var member : members) member.poll(Duration.ofMillis(30));
            return admin.describeShareGroups(List.of(group)).all().get().get(group).members().stream().filter(member -> !member.assignment().topicPartitions().isEmpty()).count() == 9;
        });
        members.forEach(KafkaShareConsumer::close);
        same("0:0 1:0", lag(group));
    }

    // -- topics

    static void topicLater() throws Throwable {
        String topic = name("later"), group = group();
        try (var member = member(group, topic, "metadata.max.age.ms=1000", "share.acknowledgement.mode=implicit")) {
            same("", runs(poll(member, QUIET_MS)));
            make(topic, 1);
            produce(topic, 0, 5, 5);
            same("0-4x1", runs(poll(member, SOON_MS)));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            eventually("it has three partitions", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 3);
            produce(topic, 2, 5, 5);
            same("2:0-4x1", runs(poll(member, SOON_MS)));
            admin.deleteTopics(List.of(topic)).all().get();
            eventually("nothing is assigned", () -> {
                member.poll(Duration.ofMillis(100));
                return admin.describeShareGroups(List.of(group)).all().get().get(group).members().stream().allMatch(each -> each.assignment().topicPartitions().isEmpty());
            });
            make(topic, 1);
            produce(topic, 0, 3, 3);
            same("0-2x1", runs(poll(member, SOON_MS)));
        }
    }

    static void topicDeleted() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 10, 5);
        try (var member = member(group, topic)) {
            var records = poll(member, SOON_MS);
            admin.deleteTopics(List.of(topic)).all().get();
            eventually("it is gone", () -> !admin.listTopics().names().get().contains(topic));
            Thread.sleep(1_000);
            accept(member, records);
            same("0=UnknownTopicIdException", commit(member));
        }
    }

    static void compacted() throws Throwable {
        String topic = topic(1, "cleanup.policy=compact", "segment.ms=500", "min.cleanable.dirty.ratio=0.0", "delete.retention.ms=100", "max.compaction.lag.ms=1000");
        String group = group();
        try (var producer = producer("compression.type=gzip")) {
            for (int i = 0; i < 200; i++) {
                producer.send(new ProducerRecord<>(topic, 0, ("k" + (i % 3 == 0 ? i % 9 : 1000 + i)).getBytes(), "v" + i));
                if (i % 50 == 49) producer.flush();
            }
            Thread.sleep(800);
            producer.send(new ProducerRecord<>(topic, 0, "last".getBytes(), "v200"));
        }
        eventually("it is compacted", () -> plain(topic) < 150);
        int count = 0, there = plain(topic);
        try (var member = member(group, topic)) {
            for (var records = poll(member, SOON_MS); !records.isEmpty(); records = poll(member, QUIET_MS)) {
                count += records.size();
                accept(member, records);
                same("0=ok", commit(member));
            }
        }
        same(there, count);
        same("0:0", lag(group));
    }

    /** How many of the records up to offset 200 are left. */
    static int plain(String topic) {
        try (var consumer = new KafkaConsumer<>(Map.<String, Object>of("bootstrap.servers", servers), new ByteArrayDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int count = 0;
            while (consumer.position(partition) < 201) count += consumer.poll(Duration.ofMillis(300)).count();
            return count;
        }
    }

    static void recordsDeleted() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 30, 10);
        try (var member = member(group, topic)) {
            var records = poll(member, SOON_MS);
            same("0-29x1", runs(records));
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(15))).all().get();
            Thread.sleep(500);
            all(member, records.subList(0, 20), AcknowledgeType.RELEASE);
            accept(member, records.subList(20, 30));
            same("0=ok", commit(member));
            var again = poll(member, SOON_MS);
            same("15-19x2", runs(again));
            accept(member, again);
            same("0=ok", commit(member));
        }
        same("0:0", lag(group));
    }

    // -- transactions

    static void transaction(String topic, String id, int count, boolean isCommitted) {
        try (var producer = producer("transactional.id=" + id + topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int i = 0; i < count; i++) producer.send(new ProducerRecord<>(topic, 0, null, "v" + i));
            producer.flush();
            if (isCommitted) producer.commitTransaction(); else producer.abortTransaction();
        }
    }

    /** Offsets 0-9 are committed, 11-20 aborted, 22-26 of no transaction, and so on; a marker is behind each. One transaction
     * is open until the group has had the rest. */
    static void transactions(String isolation, String wanted, String wantedAfterAbort) throws Throwable {
        String topic = topic(1), group = group("share.isolation.level=" + isolation);
        transaction(topic, "a", 10, true);
        transaction(topic, "a", 10, false);
        produce(topic, 0, 5, 5);
        transaction(topic, "b", 5, false);
        transaction(topic, "a", 5, true);
        try (var open = producer("transactional.id=open" + topic); var member = member(group, topic)) {
            open.initTransactions();
            open.beginTransaction();
            for (int i = 0; i < 5; i++) open.send(new ProducerRecord<>(topic, 0, null, "open"));
            open.flush();
            produce(topic, 0, 5, 5);
            drained(wanted, member);
            open.abortTransaction();
            drained(wantedAfterAbort, member);
            transaction(topic, "b", 3, false);
            drained(isolation.equals("read_committed") ? "" : "50-52x1", member);
        }
    }

    /** All that there is for now is this, and it is accepted. */
    static void drained(String wanted, KafkaShareConsumer<byte[], String> member) throws Throwable {
        List<ConsumerRecord<byte[], String>> found = new ArrayList<>();
        int waitMs = wanted.isEmpty() ? 2 * QUIET_MS : SOON_MS;
        for (var records = poll(member, waitMs); !records.isEmpty(); records = poll(member, QUIET_MS)) {
            found.addAll(records);
            accept(member, records);
            same("0=ok", commit(member));
        }
        same(wanted, runs(found));
    }

    /** What an open transaction has written is given out once the group reads uncommitted records; it is aborted then, and
     * not given again to a group that reads committed ones. */
    static void isolationChanges() throws Throwable {
        String topic = topic(1), group = group("share.isolation.level=read_committed");
        try (var open = producer("transactional.id=open" + topic); var member = member(group, topic)) {
            open.initTransactions();
            open.beginTransaction();
            for (int i = 0; i < 5; i++) open.send(new ProducerRecord<>(topic, 0, null, "open"));
            open.flush();
            same("", runs(poll(member, 2 * QUIET_MS)));
            set(group, "share.isolation.level=read_uncommitted");
            var records = poll(member, SOON_MS);
            same("0-4x1", runs(records));
            set(group, "share.isolation.level=read_committed");
            open.abortTransaction();
            Thread.sleep(500);
            all(member, records, AcknowledgeType.RELEASE);
            same("0=ok", commit(member));
            same("", runs(poll(member, 2 * QUIET_MS)));
        }
    }

    /** A lower limit holds for records that are out already. */
    static void limitChanges() throws Throwable {
        String topic = topic(1), group = group();
        produce(topic, 0, 8, 8);
        try (var member = member(group, topic)) {
            for (int count = 1; count <= 2; count++) {
                var records = poll(member, SOON_MS);
                same("0-7x" + count, runs(records));
                if (count == 2) set(group, "share.delivery.count.limit=2");
                all(member, records, AcknowledgeType.RELEASE);
                same("0=ok", commit(member));
            }
            same("", runs(poll(member, QUIET_MS)));
        }
        same("0:0", lag(group));
    }

    // -- administration

    static void whereItBegins() throws Throwable {
        String topic = topic(1);
        try (var producer = producer("linger.ms=0")) {
            for (int i = 0; i < 10; i++) producer.send(new ProducerRecord<>(topic, 0, System.currentTimeMillis() - (10 - i) * 60_000L, null, "v" + i)).get();
        }
        Map<String, String> wanted = Map.of("latest", "", "earliest", "0-9x1", "by_duration:PT5M30S", "5-9x1", "by_duration:P30D", "0-9x1", "by_duration:PT1S", "");
        for (var each : wanted.entrySet()) {
            try (var member = member(group("share.auto.offset.reset=" + each.getKey()), topic)) {
                same(each.getValue(), runs(poll(member, each.getValue().isEmpty() ? 2 * QUIET_MS : SOON_MS)));
            }
        }
    }

    static void setAnew() throws Throwable {
        String topic = topic(1), group = group();
        TopicPartition partition = new TopicPartition(topic, 0);
        produce(topic, 0, 20, 10);
        admin.alterShareGroupOffsets(group, Map.of(partition, 12L)).all().get();
        same("0:8", lag(group));
        same("Empty 0", state(group));
        try (var member = member(group, topic)) {
            var records = poll(member, SOON_MS);
            same("12-19x1", runs(records));
            accept(member, records);
        }
        eventually("it has left", () -> state(group).equals("Empty 0"));
        admin.alterShareGroupOffsets(group, Map.of(partition, 3L)).all().get();
        same("0:17", lag(group));
        try (var member = member(group, topic)) { same("3-19x1", runs(poll(member, SOON_MS))); }
    }

    static void adminWithMembers() throws Throwable {
        String topic = topic(1), group = group();
        TopicPartition partition = new TopicPartition(topic, 0);
        produce(topic, 0, 20, 10);
        try (var member = member(group, topic)) {
            same("0-19x1", runs(poll(member, SOON_MS)));
            fails("GroupNotEmptyException", () -> admin.alterShareGroupOffsets(group, Map.of(partition, 5L)).all().get());
            fails("GroupNotEmptyException", () -> admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get());
            fails("GroupNotEmptyException", () -> admin.deleteShareGroups(List.of(group)).all().get());
            fails("GroupIdNotFoundException", () -> admin.describeConsumerGroups(List.of(group)).all().get());
            fails("GroupIdNotFoundException", () -> admin.describeStreamsGroups(List.of(group)).all().get());
            fails("GroupIdNotFoundException", () -> admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(1))).all().get());
            require(admin.listGroups(ListGroupsOptions.forShareGroups()).all().get().stream().anyMatch(each -> each.groupId().equals(group)), "not listed");
            require(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream().noneMatch(each -> each.groupId().equals(group)), "listed as a consumer group");
        }
    }

    static void adminOfEmpty() throws Throwable {
        String topic = topic(2), group = group();
        produce(topic, 0, 20, 10);
        admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 5L)).all().get();
        same("0:15", lag(group));
        fails("UnknownTopicOrPartitionException", () -> admin.alterShareGroupOffsets(group, Map.of(new TopicPartition("nobody", 0), 1L)).all().get());
        fails("UnknownTopicOrPartitionException", () -> admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 9), 1L)).all().get());
        fails("UnknownTopicOrPartitionException", () -> admin.deleteShareGroupOffsets(group, Set.of("nobody")).all().get());
        admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
        same("", lag(group));
        fails("GroupIdNotFoundException", () -> admin.deleteShareGroupOffsets("nobody", Set.of(topic)).all().get());
        fails("GroupIdNotFoundException", () -> admin.deleteShareGroups(List.of("nobody")).all().get());
        fails("GroupIdNotFoundException", () -> admin.describeShareGroups(List.of("nobody")).all().get());
        admin.deleteShareGroups(List.of(group)).all().get();
        fails("GroupIdNotFoundException", () -> state(group));
    }

    static void otherKinds() throws Throwable {
        String topic = topic(1);
        for (String protocol : List.of("classic", "consumer")) {
            String taken = name("taken"), share = group();
            try (var consumer = consumer(taken, protocol); var member = member(taken, topic)) {
                consumer.subscribe(List.of(topic));
                eventually("it has its partition", () -> { consumer.poll(Duration.ofMillis(100)); return !consumer.assignment().isEmpty(); });
                fails("GroupIdNotFoundException", () -> { for (int i = 0; i < 50; i++) { member.poll(Duration.ofMillis(200)); consumer.poll(Duration.ofMillis(10)); } });
                fails("GroupIdNotFoundException", () -> state(taken));
            }
            try (var member = member(share, topic); var consumer = consumer(share, protocol)) {
                eventually("it is a member", () -> { member.poll(Duration.ofMillis(100)); return state(share).equals("Stable 1"); });
                consumer.subscribe(List.of(topic));
                fails(protocol.equals("classic") ? "InconsistentGroupProtocolException" : "GroupIdNotFoundException", () -> { for (int i = 0; i < 50; i++) { consumer.poll(Duration.ofMillis(200)); member.poll(Duration.ofMillis(10)); } });
            }
        }
    }

    static KafkaConsumer<byte[], String> consumer(String group, String protocol) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new StringDeserializer());
    }

    static void settings() throws Throwable {
        String group = name("group");
        for (String wrong : List.of("share.delivery.count.limit=1", "share.delivery.count.limit=11", "share.record.lock.duration.ms=999", "share.record.lock.duration.ms=60001", "share.session.timeout.ms=1", "share.heartbeat.interval.ms=1", "share.isolation.level=x", "share.isolation.level=READ_COMMITTED", "share.auto.offset.reset=none", "share.auto.offset.reset=by_duration:-PT1H", "share.auto.offset.reset=by_duration:", "share.auto.offset.reset=LATEST", "share.partition.max.record.locks=99", "share.partition.max.record.locks=10001", "share.renew.acknowledge.enable=maybe", "share.nothing=1", "share.delivery.count.limit=abc"))
            try { fails("InvalidConfigurationException", () -> set(group, wrong)); } catch (AssertionError failure) { throw new AssertionError(wrong + ": " + failure.getMessage()); }
        set(group, "share.auto.offset.reset=by_duration:PT1H", "share.partition.max.record.locks=100");
        var found = admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.GROUP, group))).all().get().values().iterator().next();
        same("by_duration:PT1H", found.get("share.auto.offset.reset").value());
        same(ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, found.get("share.auto.offset.reset").source());
        same("read_uncommitted", found.get("share.isolation.level").value());
        same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, found.get("share.isolation.level").source());
    }
}
