/* Load for benchmarks/network_micro.py: frames out, frames in, over a few connections, from one thread.
 *
 * network_load PORT CONNECTIONS DEPTH REQUESTS BODY_BYTES
 *
 * Each connection keeps DEPTH requests in flight until REQUESTS were answered over all connections. It prints one line:
 * seconds, requests/s, and of one request in flight at a time also the latency in us: p50 p99 p99.9.
 * A request is a header (api key 18, version 0, correlation id, client id "load") and BODY_BYTES of zeros. An answer is
 * checked for its correlation id: out of order is an error.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (1 << 22)

struct connection {
    int descriptor;
    int32_t sent, answered;
    size_t filled;
    unsigned char *in;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    fprintf(stderr, "network_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static unsigned char *out;
static size_t request_bytes;

static void send_requests(struct connection *c, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        int32_t correlation = htonl(c->sent++);
        memcpy(out + size + 8, &correlation, 4);
        size += request_bytes;
    }
    for (size_t done = 0; done < size;) {
        ssize_t n = write(c->descriptor, out + done, size - done);
        if (n < 0) fail("write");
        done += n;
    }
}

/* Reads once; returns how many answers came. */
static int read_answers(struct connection *c) {
    ssize_t n = read(c->descriptor, c->in + c->filled, READ_BYTES - c->filled);
    if (n <= 0) fail(n ? "read" : "closed by the server");
    c->filled += n;
    int answers = 0;
    size_t at = 0;
    while (c->filled - at >= 8) {
        uint32_t length, correlation;
        memcpy(&length, c->in + at, 4);
        length = ntohl(length);
        if (c->filled - at < 4 + length) break;
        memcpy(&correlation, c->in + at + 4, 4);
        if ((int32_t)ntohl(correlation) != c->answered) {
            fprintf(stderr, "network_load: answer %d where %d was due\n", ntohl(correlation), c->answered);
            exit(1);
        }
        c->answered++;
        answers++;
        at += 4 + length;
    }
    memmove(c->in, c->in + at, c->filled - at);
    c->filled -= at;
    return answers;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: network_load PORT CONNECTIONS DEPTH REQUESTS BODY_BYTES\n");
        return 2;
    }
    int port = atoi(argv[1]), connections = atoi(argv[2]), depth = atoi(argv[3]), total = atoi(argv[4]);
    int body = atoi(argv[5]);
    request_bytes = 4 + 14 + body;
    out = calloc(depth, request_bytes);
    for (int i = 0; i < depth; i++) {
        unsigned char *p = out + i * request_bytes;
        uint32_t length = htonl(request_bytes - 4);
        memcpy(p, &length, 4);
        p[5] = 18;
        p[13] = 4;
        memcpy(p + 14, "load", 4);
    }
    struct connection *all = calloc(connections, sizeof *all);
    struct pollfd *polled = calloc(connections, sizeof *polled);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < connections; i++) {
        int one = 1;
        all[i].descriptor = polled[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        polled[i].events = POLLIN;
        if (connect(polled[i].fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
        setsockopt(polled[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        all[i].in = malloc(READ_BYTES);
    }
    double *latencies = calloc(total + 1, sizeof *latencies);
    int one_at_a_time = connections == 1 && depth == 1;
    int answered = 0, sent = 0;
    double began = now();
    for (int i = 0; i < connections && sent < total; i++) {
        int count = total - sent < depth ? total - sent : depth;
        latencies[0] = now();
        send_requests(&all[i], count);
        sent += count;
    }
    double last = began;
    while (answered < total) {
        if (connections > 1 && poll(polled, connections, 10000) <= 0) fail("poll");
        for (int i = 0; i < connections; i++) {
            if (connections > 1 && !polled[i].revents) continue;
            int answers = read_answers(&all[i]);
            if (one_at_a_time && answers) {
                double t = now();
                latencies[answered] = t - last;
                last = t;
            }
            answered += answers;
            int count = total - sent < answers ? total - sent : answers;
            if (count) send_requests(&all[i], count);
            sent += count;
        }
    }
    double seconds = now() - began;
    printf("%.6f %.0f", seconds, total / seconds);
    if (one_at_a_time) {
        qsort(latencies, total, sizeof *latencies, compare);
        printf(" %.1f %.1f %.1f", latencies[total / 2] * 1e6, latencies[(int)(total * 0.99)] * 1e6,
               latencies[(int)(total * 0.999)] * 1e6);
    }
    printf("\n");
    return 0;
}
