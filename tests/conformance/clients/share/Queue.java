import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class Queue {
    static KafkaShareConsumer<String, String> member(String servers, String group, String mode) {
        Properties p = new Properties();
        p.put("bootstrap.servers", servers);
        p.put("group.id", group);
        p.put("share.acknowledgement.mode", mode);
        p.put("key.deserializer", StringDeserializer.class.getName());
        p.put("value.deserializer", StringDeserializer.class.getName());
        return new KafkaShareConsumer<>(p);
    }
    static void fail(String why) { throw new AssertionError(why); }
    public static void main(String[] args) throws Exception {
        String servers = args[0];
        String topic = "queue-" + System.nanoTime(), group = "workers-" + System.nanoTime();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
            ConfigResource r = new ConfigResource(ConfigResource.Type.GROUP, group);
            admin.incrementalAlterConfigs(Map.of(r, List.of(
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
            Map<String, Object> pc = Map.of("bootstrap.servers", servers, "key.serializer", StringSerializer.class.getName(), "value.serializer", StringSerializer.class.getName());
            int n = 1000;
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(pc)) {
                for (int i = 0; i < n; i++) producer.send(new ProducerRecord<>(topic, "k" + i, "v" + i));
            }
            long t0 = System.nanoTime();
            // explicit: accept even, release first delivery of odd, reject multiples of 7 
            Map<String, Integer> seen = new TreeMap<>();
            Set<String> done = new HashSet<>(), rejected = new HashSet<>();
            try (KafkaShareConsumer<String, String> a = member(servers, group, "explicit")) {
                a.subscribe(List.of(topic));
                long deadline = System.currentTimeMillis() + 60000;
                while (done.size() + rejected.size() < n && System.currentTimeMillis() < deadline) {
                    ConsumerRecords<String, String> records = a.poll(Duration.ofMillis(500));
                    if (seen.isEmpty() && !records.isEmpty()) System.out.println("first record after ms " + (System.nanoTime() - t0) / 1000000);
                    for (ConsumerRecord<String, String> rec : records) {
                        int i = Integer.parseInt(rec.value().substring(1));
                        int count = seen.merge(rec.value(), 1, Integer::sum);
                        if (rec.deliveryCount().get() != (short) count) fail("delivery count " + rec.deliveryCount() + " of " + rec.value() + " seen " + count);
                        if (i % 7 == 0) { a.acknowledge(rec, AcknowledgeType.REJECT); rejected.add(rec.value()); }
                        else if (i % 2 == 1 && count == 1) a.acknowledge(rec, AcknowledgeType.RELEASE);
                        else { a.acknowledge(rec, AcknowledgeType.ACCEPT); done.add(rec.value()); }
                    }
                    for (var e : a.commitSync(Duration.ofSeconds(20)).entrySet()) if (e.getValue().isPresent()) fail("commit " + e);
                }
            }
            if (done.size() + rejected.size() != n) fail("only " + done.size() + " + " + rejected.size());
            System.out.println("explicit ok after ms " + (System.nanoTime() - t0) / 1000000);
            // nobody gets anything again
            try (KafkaShareConsumer<String, String> b = member(servers, group, "implicit")) {
                b.subscribe(List.of(topic));
                long until = System.currentTimeMillis() + 3000;
                while (System.currentTimeMillis() < until) {
                    var records = b.poll(Duration.ofMillis(500));
                    if (!records.isEmpty()) fail("again: " + records.iterator().next());
                }
                try (KafkaProducer<String, String> producer = new KafkaProducer<>(pc)) {
                    for (int i = 0; i < 100; i++) producer.send(new ProducerRecord<>(topic, "k" + i, "w" + i));
                }
                int got = 0;
                until = System.currentTimeMillis() + 20000;
                while (got < 100 && System.currentTimeMillis() < until) got += b.poll(Duration.ofMillis(500)).count();
                if (got != 100) fail("implicit got " + got);
                b.commitSync(Duration.ofSeconds(10));
                var described = admin.describeShareGroups(List.of(group)).all().get().get(group);
                if (described.members().size() != 1) fail("members " + described);
                System.out.println("state " + described.groupState() + " " + described.members());
            }
            for (var l : admin.listGroups().all().get()) if (l.groupId().equals(group)) System.out.println("listed " + l);
            // a lock that a member which vanished held: close releases
            String group2 = group + "-2";
            ConfigResource r2 = new ConfigResource(ConfigResource.Type.GROUP, group2);
            admin.incrementalAlterConfigs(Map.of(r2, List.of(
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
            KafkaShareConsumer<String, String> c = member(servers, group2, "explicit");
            c.subscribe(List.of(topic));
            int held = 0;
            long until = System.currentTimeMillis() + 20000;
            while (held == 0 && System.currentTimeMillis() < until) held = c.poll(Duration.ofMillis(500)).count();
            if (held == 0) fail("held none");
            c.close();
            Set<String> values = new HashSet<>();
            int twice = 0;
            try (KafkaShareConsumer<String, String> d = member(servers, group2, "implicit"); KafkaShareConsumer<String, String> e = member(servers, group2, "implicit")) {
                d.subscribe(List.of(topic)); e.subscribe(List.of(topic));
                until = System.currentTimeMillis() + 60000;
                while (values.size() < n + 100 && System.currentTimeMillis() < until) {
                    for (var one : List.of(d, e)) for (var rec : one.poll(Duration.ofMillis(200))) {
                        if (!values.add(rec.value())) fail("to two members: " + rec);
                        if (rec.deliveryCount().get() == 2) twice++;
                    }
                }
            }
            if (values.size() != n + 100) fail("two members got " + values.size());
            System.out.println("shared ok; redelivered " + twice + " of " + held);
            admin.deleteShareGroups(List.of(group2)).all().get();
            System.out.println("ALL OK " + (System.nanoTime() - t0) / 1000000 + " ms");
        }
    }
}
