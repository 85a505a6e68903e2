package kavka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/**
 * Encodes with Kafka's own message classes what kavka's tests describe.
 *
 * One line in: {"message": name, "version": number, "json": fields, "hex": kavka's bytes}.
 * One line out: "absent" if this release has no such message or version, otherwise the bytes that Kafka writes for the
 * fields, in hex; then a space and "same" if Kafka reads kavka's bytes, to their end, as the message of those fields,
 * "different" if not. A failure is a line that begins with "error".
 */
public final class MessageHarness {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
    };
    private static final ObjectMapper JSON = new ObjectMapper();

    private MessageHarness() { }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(JSON.readTree(line)));
        }
        answers.flush();
    }

    private static String answer(JsonNode sample) {
        try {
            Class<?> type = find(sample.get("message").asText());
            short version = (short) sample.get("version").asInt();
            if (type == null || !knows(type, version)) {
                return "absent";
            }
            Message described = fromJson(type, sample.get("json"), version);
            byte[] written = write(described, version);
            boolean same = read(type, HexFormat.of().parseHex(sample.get("hex").asText()), version).equals(described);
            return HexFormat.of().formatHex(written) + (same ? " same" : " different");
        } catch (InvocationTargetException failure) {
            return "error " + failure.getCause();
        } catch (ReflectiveOperationException | RuntimeException failure) {
            return "error " + failure;
        }
    }

    private static Class<?> find(String name) {
        for (String where : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    Class<?> type = Class.forName(where + name + suffix);
                    if (Message.class.isAssignableFrom(type)) {
                        return type;
                    }
                } catch (ClassNotFoundException elsewhere) {
                    continue;
                }
            }
        }
        return null;
    }

    private static boolean knows(Class<?> type, short version) throws ReflectiveOperationException {
        short lowest = type.getField("LOWEST_SUPPORTED_VERSION").getShort(null);
        short highest = type.getField("HIGHEST_SUPPORTED_VERSION").getShort(null);
        return lowest <= version && version <= highest;
    }

    private static Message fromJson(Class<?> type, JsonNode json, short version) throws ReflectiveOperationException {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        return (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size() promised " + buffer.remaining() + " bytes more");
        }
        return buffer.array();
    }

    private static Message read(Class<?> type, byte[] bytes, short version) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Object message = type.getConstructor(Readable.class, short.class)
            .newInstance(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes were not read");
        }
        return (Message) message;
    }
}
