package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A Kafka cluster of three brokers for the tests of a class, each in a process of its own, without Docker.
 *
 * <p>Copy this file. The program "kavka" must be on the PATH, or named in the variable KAVKA: pip install a checkout of it.
 */
final class Kavka implements BeforeAllCallback, AfterAllCallback {
    private static final long STOP_SECONDS = 60;

    private Path directory;
    private Process process;
    private String bootstrapServers;
    private final Map<Integer, Long> pids = new HashMap<>();

    @Override
    public void beforeAll(ExtensionContext context) throws IOException {
        directory = Files.createTempDirectory("kavka");
        Path log = directory.resolve("kavka.log");
        String program = System.getenv().getOrDefault("KAVKA", "kavka");
        process = new ProcessBuilder(List.of(
                        program, "up", "--brokers", "3", "--processes", "--port", "0", "--no-console", "--json",
                        // The cluster ends with this process, also when it is killed.
                        "--stop-with-stdin", "--data", directory.resolve("data").toString()))
                .redirectError(log.toFile())
                .start();
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        JsonNode ready = line == null ? null : new ObjectMapper().readTree(line);
        if (ready == null || !"ready".equals(ready.path("event").asText())) {
            throw new IllegalStateException("kavka did not start:\n" + Files.readString(log));
        }
        bootstrapServers = ready.get("bootstrap").asText();
        for (JsonNode broker : ready.get("brokers")) {
            pids.put(broker.get("broker_id").asInt(), broker.get("pid").asLong());
        }
    }

    @Override
    public void afterAll(ExtensionContext context) throws IOException, InterruptedException {
        if (process == null) {
            return;
        }
        process.getOutputStream().close();
        if (!process.waitFor(STOP_SECONDS, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor();
        }
        try (var files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    String bootstrapServers() {
        return bootstrapServers;
    }

    /** Ends a broker with kill -9. The others go on. */
    void kill(int broker) {
        ProcessHandle.of(pids.get(broker)).orElseThrow().destroyForcibly();
    }
}
