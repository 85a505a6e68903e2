/*
 * load: a load generator on librdkafka that costs as little as the library allows.
 *
 * It decides when the clock of a measurement starts and stops, and what one operation is. It must not know which broker
 * it talks to: both candidates of a comparison get the same program with the same settings.
 *
 *   load produce  OPTIONS   -n records of -s bytes as fast as they go; the time ends with the last delivery report
 *   load consume  OPTIONS   reads -n records of partition 0 from its beginning
 *   load latency  OPTIONS   one record at a time: from produce() to its delivery report
 *   load endtoend OPTIONS   one record at a time: from produce() until a consumer in this process has it
 *
 *   -b host:port   -t topic (partition 0 is used)   -n records   -s bytes of each value   -w operations before the clock starts
 *   -X name=value  a setting of librdkafka's, as often as needed
 *
 * Prints one line of JSON: seconds, records, bytes, user_s and system_s of this process in the measured time, and for the
 * last two p50_us, p90_us, p99_us and max_us. Ends with 1 and a sentence on standard error when a single record failed.
 */
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE_BATCH = 1000, CONSUME_BATCH = 10000, MAX_SETTINGS = 32, ERROR_LENGTH = 512, TIMEOUT_MS = 120000, PARTITION = 0 };

struct options {
    const char *bootstrap;
    const char *topic;
    long records;
    size_t size;
    long warm;
    const char *settings[MAX_SETTINGS];
    int setting_count;
};

struct clock {
    struct timespec wall;
    struct rusage used;
};

static char *payload;
static rd_kafka_resp_err_t delivery_error = RD_KAFKA_RESP_ERR_NO_ERROR;
static volatile long delivered;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static struct clock now(void) {
    struct clock at;
    clock_gettime(CLOCK_MONOTONIC, &at.wall);
    getrusage(RUSAGE_SELF, &at.used);
    return at;
}

static double wall_s(struct clock from, struct clock to) {
    return (double)(to.wall.tv_sec - from.wall.tv_sec) + (double)(to.wall.tv_nsec - from.wall.tv_nsec) / 1e9;
}

static double used_s(struct timeval from, struct timeval to) {
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

/* No line break: the caller may have more to say on the line. */
static void print_times(struct clock from, struct clock to, long records, size_t bytes) {
    printf("\"seconds\": %.6f, \"records\": %ld, \"bytes\": %zu, \"user_s\": %.6f, \"system_s\": %.6f, \"librdkafka\": \"%s\"",
           wall_s(from, to), records, bytes, used_s(from.used.ru_utime, to.used.ru_utime),
           used_s(from.used.ru_stime, to.used.ru_stime), rd_kafka_version_str());
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err)
        delivery_error = message->err;
    delivered++;
}

static rd_kafka_t *connect_client(rd_kafka_type_t type, const struct options *options) {
    char error[ERROR_LENGTH];
    rd_kafka_conf_t *settings = rd_kafka_conf_new();
    if (rd_kafka_conf_set(settings, "bootstrap.servers", options->bootstrap, error, sizeof error))
        die("bootstrap.servers=%s: %s", options->bootstrap, error);
    /* One set of -X serves producer and consumer: no warnings about settings that are the other's. */
    rd_kafka_conf_set(settings, "log_level", "3", NULL, 0);
    for (int i = 0; i < options->setting_count; i++) {
        char *name = strdup(options->settings[i]);
        char *value = strchr(name, '=');
        if (!value)
            die("-X %s: expected name=value", name);
        *value++ = 0;
        if (rd_kafka_conf_set(settings, name, value, error, sizeof error))
            die("-X %s=%s: %s", name, value, error);
        free(name);
    }
    if (type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(settings, on_delivery);
    rd_kafka_t *client = rd_kafka_new(type, settings, error, sizeof error);
    if (!client)
        die("no client: %s", error);
    return client;
}

static rd_kafka_topic_t *open_topic(rd_kafka_t *client, const struct options *options) {
    const struct rd_kafka_metadata *metadata;
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
    /* Connecting and learning the leader is not what is measured. */
    rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, 10000);
    if (error)
        die("no metadata of %s from %s: %s", options->topic, options->bootstrap, rd_kafka_err2str(error));
    rd_kafka_metadata_destroy(metadata);
    return topic;
}

static void produce_one(rd_kafka_topic_t *topic, const struct options *options) {
    if (rd_kafka_produce(topic, PARTITION, 0, payload, options->size, NULL, 0, NULL))
        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

static void await_delivery(rd_kafka_t *producer, long count) {
    while (delivered < count)
        if (!rd_kafka_poll(producer, TIMEOUT_MS))
            die("no delivery report in %d ms", TIMEOUT_MS);
    if (delivery_error)
        die("delivery: %s", rd_kafka_err2str(delivery_error));
}

static void produce(const struct options *options) {
    rd_kafka_t *producer = connect_client(RD_KAFKA_PRODUCER, options);
    rd_kafka_topic_t *topic = open_topic(producer, options);
    rd_kafka_message_t *batch = calloc(PRODUCE_BATCH, sizeof *batch);
    for (long i = 0; i < options->warm; i++)
        produce_one(topic, options);
    if (rd_kafka_flush(producer, TIMEOUT_MS))
        die("the records before the clock were not delivered in %d ms", TIMEOUT_MS);

    struct clock from = now();
    for (long sent = 0; sent < options->records;) {
        int count = options->records - sent < PRODUCE_BATCH ? (int)(options->records - sent) : PRODUCE_BATCH;
        for (int i = 0; i < count; i++) {
            batch[i].payload = payload;
            batch[i].len = options->size;
        }
        /* Neither copied nor freed by the library: the payload is one constant buffer. */
        int queued = rd_kafka_produce_batch(topic, PARTITION, 0, batch, count);
        sent += queued;
        if (queued < count) {
            for (int i = 0; i < count; i++)
                if (batch[i].err && batch[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                    die("produce: %s", rd_kafka_err2str(batch[i].err));
            /* The queue is full: reports of success are not asked for, so nothing would wake a poll. */
            usleep(1000);
        }
        rd_kafka_poll(producer, 0);
    }
    if (rd_kafka_flush(producer, TIMEOUT_MS))
        die("not everything was delivered in %d ms", TIMEOUT_MS);
    struct clock to = now();
    if (delivery_error)
        die("delivery: %s", rd_kafka_err2str(delivery_error));
    putchar('{');
    print_times(from, to, options->records, (size_t)options->records * options->size);
    puts("}");
}

static void consume(const struct options *options) {
    rd_kafka_t *consumer = connect_client(RD_KAFKA_CONSUMER, options);
    rd_kafka_topic_t *topic = open_topic(consumer, options);
    rd_kafka_message_t **messages = calloc(CONSUME_BATCH, sizeof *messages);
    size_t bytes = 0;
    long count = 0;

    struct clock from = now();
    if (rd_kafka_consume_start(topic, PARTITION, RD_KAFKA_OFFSET_BEGINNING))
        die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    while (count < options->records) {
        ssize_t got = rd_kafka_consume_batch(topic, PARTITION, 10000, messages, CONSUME_BATCH);
        if (got <= 0)
            die("only %ld of %ld records came", count, options->records);
        for (ssize_t i = 0; i < got; i++) {
            if (messages[i]->err)
                die("consume: %s", rd_kafka_message_errstr(messages[i]));
            bytes += messages[i]->len;
            rd_kafka_message_destroy(messages[i]);
        }
        count += got;
    }
    struct clock to = now();
    putchar('{');
    print_times(from, to, count, bytes);
    puts("}");
    rd_kafka_consume_stop(topic, PARTITION);
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_latencies(struct clock from, struct clock to, double *latency_us, const struct options *options) {
    long n = options->records;
    qsort(latency_us, (size_t)n, sizeof *latency_us, ascending);
    putchar('{');
    print_times(from, to, n, (size_t)n * options->size);
    printf(", \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", latency_us[n / 2],
           latency_us[n * 9 / 10], latency_us[n * 99 / 100], latency_us[n - 1]);
}

static void latency(const struct options *options) {
    rd_kafka_t *producer = connect_client(RD_KAFKA_PRODUCER, options);
    rd_kafka_topic_t *topic = open_topic(producer, options);
    double *latency_us = calloc((size_t)options->records, sizeof *latency_us);
    struct clock from = now();
    for (long i = -options->warm; i < options->records; i++) {
        if (i == 0)
            from = now();
        struct timespec sent, acknowledged;
        clock_gettime(CLOCK_MONOTONIC, &sent);
        produce_one(topic, options);
        await_delivery(producer, i + options->warm + 1);
        clock_gettime(CLOCK_MONOTONIC, &acknowledged);
        if (i >= 0)
            latency_us[i] = (double)(acknowledged.tv_sec - sent.tv_sec) * 1e6 + (double)(acknowledged.tv_nsec - sent.tv_nsec) / 1e3;
    }
    print_latencies(from, now(), latency_us, options);
}

static void endtoend(const struct options *options) {
    rd_kafka_t *producer = connect_client(RD_KAFKA_PRODUCER, options);
    rd_kafka_topic_t *to_topic = open_topic(producer, options);
    rd_kafka_t *consumer = connect_client(RD_KAFKA_CONSUMER, options);
    rd_kafka_topic_t *from_topic = open_topic(consumer, options);
    double *latency_us = calloc((size_t)options->records, sizeof *latency_us);
    int64_t log_start_offset, log_end_offset;
    if (rd_kafka_query_watermark_offsets(consumer, options->topic, PARTITION, &log_start_offset, &log_end_offset, 10000))
        die("no end offset of %s", options->topic);
    if (rd_kafka_consume_start(from_topic, PARTITION, log_end_offset))
        die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
    struct clock from = now();
    for (long i = -options->warm; i < options->records; i++) {
        if (i == 0)
            from = now();
        struct timespec sent, received;
        clock_gettime(CLOCK_MONOTONIC, &sent);
        produce_one(to_topic, options);
        rd_kafka_message_t *message = rd_kafka_consume(from_topic, PARTITION, 10000);
        clock_gettime(CLOCK_MONOTONIC, &received);
        if (!message || message->err)
            die("consume: %s", message ? rd_kafka_message_errstr(message) : "nothing came in 10 s");
        if (message->offset != log_end_offset + i + options->warm)
            die("expected offset %lld, found %lld", (long long)(log_end_offset + i + options->warm), (long long)message->offset);
        rd_kafka_message_destroy(message);
        await_delivery(producer, i + options->warm + 1);
        if (i >= 0)
            latency_us[i] = (double)(received.tv_sec - sent.tv_sec) * 1e6 + (double)(received.tv_nsec - sent.tv_nsec) / 1e3;
    }
    print_latencies(from, now(), latency_us, options);
    rd_kafka_consume_stop(from_topic, PARTITION);
}

static struct options parse(int count, char **arguments) {
    struct options options = {.size = 100, .warm = 0};
    for (int option; (option = getopt(count, arguments, "b:t:n:s:w:X:")) != -1;) {
        switch (option) {
        case 'b': options.bootstrap = optarg; break;
        case 't': options.topic = optarg; break;
        case 'n': options.records = atol(optarg); break;
        case 's': options.size = (size_t)atol(optarg); break;
        case 'w': options.warm = atol(optarg); break;
        case 'X':
            if (options.setting_count == MAX_SETTINGS)
                die("more than %d settings", MAX_SETTINGS);
            options.settings[options.setting_count++] = optarg;
            break;
        default: exit(2);
        }
    }
    if (!options.bootstrap || !options.topic || options.records < 1)
        die("-b host:port, -t topic and -n records are needed");
    return options;
}

int main(int count, char **arguments) {
    if (count < 2)
        die("usage: load produce|consume|latency|endtoend -b host:port -t topic -n records [-s bytes] [-w warm] [-X name=value]");
    struct options options = parse(count - 1, arguments + 1);
    payload = malloc(options.size + 1);
    for (size_t i = 0; i < options.size; i++)
        payload[i] = (char)(i * 2654435761u >> 24);
    if (!strcmp(arguments[1], "produce"))
        produce(&options);
    else if (!strcmp(arguments[1], "consume"))
        consume(&options);
    else if (!strcmp(arguments[1], "latency"))
        latency(&options);
    else if (!strcmp(arguments[1], "endtoend"))
        endtoend(&options);
    else
        die("%s: expected produce, consume, latency or endtoend", arguments[1]);
    fflush(stdout);
    /* Without tearing the clients down: their threads' farewells are not part of any figure. */
    _exit(0);
}
