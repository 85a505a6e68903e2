import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;

/** Prints, as JSON, what the Kafka on the class path knows of its settings: facts only, none of its documentation. */
public class ConfigFacts {
    static Map<String, Object> table(Map<String, ConfigDef.ConfigKey> keys) {
        Map<String, Object> out = new TreeMap<>();
        for (ConfigDef.ConfigKey k : keys.values()) {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("type", k.type.name());
            row.put("has_default", k.hasDefault());
            row.put("default", k.hasDefault() && k.defaultValue != null ? ConfigDef.convertToString(k.defaultValue, k.type) : null);
            row.put("valid", k.validator == null ? null : k.validator.toString());
            row.put("importance", k.importance.name());
            row.put("internal", k.internalConfig);
            out.put(k.name, row);
        }
        return out;
    }

    static Object call(String type, String method, Object... args) throws Exception {
        Class<?> c = Class.forName(type);
        Object self = null;
        try { self = c.getField("MODULE$").get(null); } catch (NoSuchFieldException e) { }
        for (Method m : c.getDeclaredMethods())
            if (m.getName().equals(method) && m.getParameterCount() == args.length) { m.setAccessible(true); return m.invoke(self, args); }
        for (Field f : c.getDeclaredFields())
            if (f.getName().equals(method)) { f.setAccessible(true); return f.get(self); }
        throw new NoSuchMethodException(type + "." + method);
    }

    static Object first(Object[]... tries) throws Exception {
        Exception last = null;
        for (Object[] t : tries)
            try { return call((String) t[0], (String) t[1], Arrays.copyOfRange(t, 2, t.length)); } catch (ReflectiveOperationException e) { last = e; }
        throw last;
    }

    static List<String> strings(Object collection) {
        List<String> out = new ArrayList<>();
        if (collection instanceof Iterable<?> i) { for (Object o : i) out.add(o.toString()); return out; }
        scala.collection.Iterator<?> i = ((scala.collection.Iterable<?>) collection).iterator();
        while (i.hasNext()) out.add(i.next().toString());
        return out;
    }

    public static void main(String[] a) throws Exception {
        Map<String, Object> out = new LinkedHashMap<>();
        Map<String, Object> broker = table(((ConfigDef) call("kafka.server.KafkaConfig", "configDef")).configKeys());
        String d39 = "kafka.server.DynamicBrokerConfig$", d4 = "org.apache.kafka.server.config.DynamicBrokerConfig";
        Set<String> dynamic = new TreeSet<>(strings(first(new Object[]{d39, "AllDynamicConfigs"}, new Object[]{d4, "ALL_DYNAMIC_CONFIGS"})));
        Set<String> perBroker = new TreeSet<>(strings(first(new Object[]{d39, "PerBrokerConfigs"}, new Object[]{d4, "PER_BROKER_CONFIGS"})));
        for (Map.Entry<String, Object> e : broker.entrySet()) {
            @SuppressWarnings("unchecked") Map<String, Object> row = (Map<String, Object>) e.getValue();
            row.put("mode", !dynamic.contains(e.getKey()) ? "read-only" : perBroker.contains(e.getKey()) ? "per-broker" : "cluster-wide");
            row.put("synonyms", strings(first(new Object[]{d39, "brokerConfigSynonyms", e.getKey(), true}, new Object[]{d4, "brokerConfigSynonyms", e.getKey(), true})));
        }
        out.put("broker", broker);
        out.put("dynamic", dynamic);
        out.put("per_broker", perBroker);
        @SuppressWarnings("unchecked") Map<String, ConfigDef.ConfigKey> topicKeys =
            (Map<String, ConfigDef.ConfigKey>) call("org.apache.kafka.storage.internals.log.LogConfig", "configKeys");
        Map<String, Object> topic = table(topicKeys);
        @SuppressWarnings("unchecked") Map<String, List<?>> synonyms =
            (Map<String, List<?>>) call("org.apache.kafka.server.config.ServerTopicConfigSynonyms", "ALL_TOPIC_CONFIG_SYNONYMS");
        for (Map.Entry<String, List<?>> e : synonyms.entrySet()) {
            List<String> names = new ArrayList<>();
            for (Object s : e.getValue()) names.add((String) s.getClass().getMethod("name").invoke(s));
            @SuppressWarnings("unchecked") Map<String, Object> row = (Map<String, Object>) topic.get(e.getKey());
            if (row != null) row.put("synonyms", names);
        }
        out.put("topic", topic);
        for (String name : new String[]{"kafka.server.DynamicConfig$Broker$", "org.apache.kafka.server.config.DynamicConfig$Broker"})
            try { out.put("dynamic_broker_extra", table(((ConfigDef) call(name, "brokerConfigs")).configKeys())); break; } catch (ReflectiveOperationException e) { }
        try {
            @SuppressWarnings("unchecked") Map<String, ConfigDef.ConfigKey> group =
                ((ConfigDef) first(new Object[]{"org.apache.kafka.coordinator.group.GroupConfig", "configDef"}, new Object[]{"org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"}, new Object[]{"org.apache.kafka.coordinator.group.GroupConfig", "CONFIG"})).configKeys();
            out.put("group", table(group));
        } catch (ReflectiveOperationException e) { System.err.println(e); }
        for (String name : new String[]{"org.apache.kafka.server.metrics.ClientMetricsConfigs"})
            for (Field f : Class.forName(name).getDeclaredFields())
                if (f.getType() == ConfigDef.class) { f.setAccessible(true); out.put("client_metrics", table(((ConfigDef) f.get(null)).configKeys())); }
        System.out.println(new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValueAsString(out));
    }
}
