/* floor PORT DIRECTORY: the least that a broker can do for the rows of one partition, in one thread.
 *
 * What it does: receive a Produce, check the CRC of its batch, give it its offset, write it to the topic's file, answer;
 * find a Fetch's place in an index in memory, and send the file's bytes from there. What it leaves out: everything else.
 * It believes what it is sent, keeps one partition a topic, and forgets all when it ends. It says what a machine can do,
 * so that a broker's rows can be seen as a share of that.
 *
 * Versions: ApiVersions 0, Metadata 4, Produce 3, Fetch 4, ListOffsets 1, CreateTopics 2. Needs SSE4.2 (-msse4.2).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nmmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3, API_VERSIONS = 18, CREATE_TOPICS = 19 };
enum { UNSUPPORTED_VERSION = 35, UNKNOWN_TOPIC = 3, CORRUPT_MESSAGE = 2, TOPIC_EXISTS = 36 };
enum { MOST_TOPICS = 256, MOST_DESCRIPTORS = 1024, NAME_BYTES = 256, BATCH_HEADER = 61 };

struct place { int64_t offset, position; };

struct topic {
    char name[NAME_BYTES];
    int file;
    int64_t end, bytes;
    struct place *places;
    size_t place_count, place_room;
};

/* A fetch that waits; `topic` is NULL where none does. */
struct waiting { struct topic *topic; int32_t correlation, most; int64_t offset, until_ms; };

struct connection {
    int socket;
    uint8_t *in;
    size_t in_used, in_room;
    uint8_t *out;
    size_t out_used, out_room, out_sent;
    int file;
    int64_t file_position, file_left;
    struct waiting waiting;
};

static struct topic topics[MOST_TOPICS];
static int topic_count, port;
static const char *directory;
static struct connection *connections[MOST_DESCRIPTORS];
static int polling;

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void die(const char *what) { perror(what); exit(1); }

/* -- reading and writing */

static uint32_t read_u32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return be32toh(value); }
static uint64_t read_u64(const uint8_t *at) { uint64_t value; memcpy(&value, at, 8); return be64toh(value); }
static uint16_t read_u16(const uint8_t *at) { uint16_t value; memcpy(&value, at, 2); return be16toh(value); }

static void put(struct connection *to, const void *data, size_t size) {
    if (to->out_used + size > to->out_room) {
        to->out_room = (to->out_used + size) * 2;
        to->out = realloc(to->out, to->out_room);
        if (!to->out) die("realloc");
    }
    memcpy(to->out + to->out_used, data, size);
    to->out_used += size;
}
static void put8(struct connection *to, int value) { uint8_t one = (uint8_t)value; put(to, &one, 1); }
static void put16(struct connection *to, int value) { uint16_t one = htobe16((uint16_t)value); put(to, &one, 2); }
static void put32(struct connection *to, int64_t value) { uint32_t one = htobe32((uint32_t)value); put(to, &one, 4); }
static void put64(struct connection *to, int64_t value) { uint64_t one = htobe64((uint64_t)value); put(to, &one, 8); }
static void put_text(struct connection *to, const char *text) {
    put16(to, (int)strlen(text));
    put(to, text, strlen(text));
}

static size_t begin_answer(struct connection *to, int32_t correlation) {
    size_t at = to->out_used;
    put32(to, 0);
    put32(to, correlation);
    return at;
}
static void end_answer(struct connection *to, size_t at, int64_t bytes_behind) {
    uint32_t size = htobe32((uint32_t)(to->out_used - at - 4 + (size_t)bytes_behind));
    memcpy(to->out + at, &size, 4);
}

static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint64_t crc = 0xffffffff;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    for (; size; size--, data++) crc = _mm_crc32_u8((uint32_t)crc, *data);
    return (uint32_t)crc ^ 0xffffffff;
}

/* -- topics */

static struct topic *find(const uint8_t *name, size_t size) {
    for (int index = 0; index < topic_count; index++)
        if (strlen(topics[index].name) == size && !memcmp(topics[index].name, name, size)) return &topics[index];
    return NULL;
}

static struct topic *make(const uint8_t *name, size_t size) {
    if (topic_count == MOST_TOPICS || size >= NAME_BYTES) return NULL;
    struct topic *made = &topics[topic_count++];
    memcpy(made->name, name, size);
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.log", directory, topic_count);
    made->file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0644);
    if (made->file < 0) die(path);
    return made;
}

static int append(struct topic *to, uint8_t *batch, size_t size, int64_t *base) {
    if (size < BATCH_HEADER || crc32c(batch + 21, size - 21) != read_u32(batch + 17)) return CORRUPT_MESSAGE;
    *base = to->end;
    uint64_t offset = htobe64((uint64_t)to->end);
    memcpy(batch, &offset, 8);
    memset(batch + 8 + 4, 0, 4);
    if (write(to->file, batch, size) != (ssize_t)size) die("write");
    if (to->place_count == to->place_room) {
        to->place_room = to->place_room ? to->place_room * 2 : 1024;
        to->places = realloc(to->places, to->place_room * sizeof *to->places);
        if (!to->places) die("realloc");
    }
    to->places[to->place_count++] = (struct place){to->end, to->bytes};
    to->end += (int64_t)read_u32(batch + 23) + 1;
    to->bytes += (int64_t)size;
    return 0;
}

/* Where the batch with this offset begins; the end of the file behind the last one. */
static size_t place_of(const struct topic *of, int64_t offset) {
    size_t low = 0, high = of->place_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (of->places[middle].offset <= offset) low = middle + 1;
        else high = middle;
    }
    return low ? low - 1 : 0;
}

/* -- sending */

static void watch(struct connection *one, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = one->socket};
    epoll_ctl(polling, EPOLL_CTL_MOD, one->socket, &event);
}

/* Sends what there is. Returns whether all of it has left. */
static int flush(struct connection *one) {
    while (one->out_sent < one->out_used) {
        int flags = MSG_NOSIGNAL | (one->file_left ? MSG_MORE : 0);
        ssize_t sent = send(one->socket, one->out + one->out_sent, one->out_used - one->out_sent, flags);
        if (sent < 0) return watch(one, EPOLLIN | EPOLLOUT), 0;
        one->out_sent += (size_t)sent;
    }
    one->out_used = one->out_sent = 0;
    while (one->file_left) {
        off_t position = one->file_position;
        ssize_t sent = sendfile(one->socket, one->file, &position, (size_t)one->file_left);
        if (sent <= 0) return watch(one, EPOLLIN | EPOLLOUT), 0;
        one->file_position += sent;
        one->file_left -= sent;
    }
    return 1;
}

static void answer_fetch(struct connection *to, const struct waiting *asked) {
    struct topic *from = asked->topic;
    size_t place = place_of(from, asked->offset);
    int64_t begin = from->bytes, end = from->bytes;
    if (asked->offset < from->end && from->place_count) {
        begin = from->places[place].position;
        size_t last = place + 1;
        while (last < from->place_count && from->places[last].position - begin < asked->most) last++;
        end = last < from->place_count ? from->places[last].position : from->bytes;
        /* One batch too many may be in it: as for a broker, the bound is on whole batches. */
        if (end - begin > asked->most && last > place + 1) end = from->places[last - 1].position;
    }
    size_t at = begin_answer(to, asked->correlation);
    put32(to, 0);
    put32(to, 1);
    put_text(to, from->name);
    put32(to, 1);
    put32(to, 0);
    put16(to, 0);
    put64(to, from->end);
    put64(to, from->end);
    put32(to, -1);
    put32(to, end - begin);
    end_answer(to, at, end - begin);
    to->file = from->file;
    to->file_position = begin;
    to->file_left = end - begin;
}

static void wake(struct topic *changed) {
    for (int descriptor = 0; descriptor < MOST_DESCRIPTORS; descriptor++) {
        struct connection *one = connections[descriptor];
        if (one && one->waiting.topic == changed) {
            struct waiting asked = one->waiting;
            one->waiting.topic = NULL;
            answer_fetch(one, &asked);
            flush(one);
        }
    }
}

/* -- requests */

static void api_versions(struct connection *to, int32_t correlation, int version) {
    static const int served[][3] = {{PRODUCE, 0, 3},      {FETCH, 0, 4},        {LIST_OFFSETS, 0, 1},
                                    {METADATA, 0, 4},     {API_VERSIONS, 0, 0}, {CREATE_TOPICS, 0, 2}};
    size_t at = begin_answer(to, correlation), count = sizeof served / sizeof *served;
    put16(to, version ? UNSUPPORTED_VERSION : 0);
    put32(to, (int64_t)count);
    for (size_t index = 0; index < count; index++)
        for (int part = 0; part < 3; part++) put16(to, served[index][part]);
    end_answer(to, at, 0);
}

static void describe(struct connection *to, const char *name, int error) {
    put16(to, error);
    put_text(to, name);
    put8(to, 0);
    put32(to, error ? 0 : 1);
    if (error) return;
    put16(to, 0);
    for (int index = 0; index < 2; index++) put32(to, 0); /* the partition; its leader */
    for (int list = 0; list < 2; list++) put32(to, 1), put32(to, 0); /* replicas, in-sync replicas */
}

static void metadata(struct connection *to, int32_t correlation, const uint8_t *body) {
    size_t at = begin_answer(to, correlation);
    put32(to, 0);
    put32(to, 1);
    put32(to, 0);
    put_text(to, "127.0.0.1");
    put32(to, port);
    put16(to, -1);
    put_text(to, "floor");
    put32(to, 0);
    int32_t count = (int32_t)read_u32(body);
    body += 4;
    put32(to, count < 0 ? topic_count : count);
    for (int32_t index = 0; count < 0 && index < topic_count; index++) describe(to, topics[index].name, 0);
    for (int32_t index = 0; index < count; index++) {
        size_t size = read_u16(body);
        char name[NAME_BYTES] = {0};
        memcpy(name, body + 2, size < NAME_BYTES ? size : NAME_BYTES - 1);
        describe(to, name, find(body + 2, size) ? 0 : UNKNOWN_TOPIC);
        body += 2 + size;
    }
    end_answer(to, at, 0);
}

static void create_topics(struct connection *to, int32_t correlation, const uint8_t *body) {
    size_t at = begin_answer(to, correlation);
    put32(to, 0);
    int32_t count = (int32_t)read_u32(body);
    body += 4;
    put32(to, count);
    while (count--) {
        size_t size = read_u16(body);
        const uint8_t *name = body + 2;
        int error = find(name, size) ? TOPIC_EXISTS : make(name, size) ? 0 : UNKNOWN_TOPIC;
        put16(to, (int)size);
        put(to, name, size);
        put16(to, error);
        put16(to, -1);
        body += 2 + size + 4 + 2;
        int32_t assignments = (int32_t)read_u32(body);
        for (body += 4; assignments > 0; assignments--) body += 8 + 4 * read_u32(body + 4);
        int32_t configs = (int32_t)read_u32(body);
        for (body += 4; configs > 0; configs--) {
            body += 2 + read_u16(body);
            int16_t value = (int16_t)read_u16(body);
            body += 2 + (value > 0 ? value : 0);
        }
    }
    end_answer(to, at, 0);
}

static void list_offsets(struct connection *to, int32_t correlation, const uint8_t *body) {
    size_t size = read_u16(body + 8);
    struct topic *of = find(body + 10, size);
    const uint8_t *partition = body + 10 + size + 4;
    int64_t timestamp = (int64_t)read_u64(partition + 4);
    size_t at = begin_answer(to, correlation);
    put32(to, 1);
    put16(to, (int)size);
    put(to, body + 10, size);
    put32(to, 1);
    put32(to, 0);
    put16(to, of ? 0 : UNKNOWN_TOPIC);
    put64(to, -1);
    put64(to, of && timestamp == -1 ? of->end : 0);
    end_answer(to, at, 0);
}

static struct topic *produce(struct connection *to, int32_t correlation, uint8_t *body) {
    int16_t transactional = (int16_t)read_u16(body);
    body += 2 + (transactional > 0 ? transactional : 0);
    int acks = (int16_t)read_u16(body);
    body += 2 + 4 + 4;
    size_t name_size = read_u16(body);
    const uint8_t *name = body + 2;
    body += 2 + name_size + 4 + 4;
    size_t size = read_u32(body);
    struct topic *topic = find(name, name_size);
    int64_t base = -1;
    int error = topic ? append(topic, body + 4, size, &base) : UNKNOWN_TOPIC;
    if (acks) {
        size_t at = begin_answer(to, correlation);
        put32(to, 1);
        put16(to, (int)name_size);
        put(to, name, name_size);
        put32(to, 1);
        put32(to, 0);
        put16(to, error);
        put64(to, base);
        put64(to, -1);
        put32(to, 0);
        end_answer(to, at, 0);
    }
    return error ? NULL : topic;
}

static void fetch(struct connection *to, int32_t correlation, const uint8_t *body) {
    struct waiting asked = {.correlation = correlation, .until_ms = now_ms() + (int32_t)read_u32(body + 4)};
    int32_t count = (int32_t)read_u32(body + 17);
    if (count < 1) {
        size_t at = begin_answer(to, correlation);
        put32(to, 0);
        put32(to, 0);
        end_answer(to, at, 0);
        return;
    }
    size_t size = read_u16(body + 21);
    asked.topic = find(body + 23, size);
    const uint8_t *partition = body + 23 + size + 4;
    asked.offset = (int64_t)read_u64(partition + 4);
    asked.most = (int32_t)read_u32(partition + 12);
    if (!asked.topic) exit(2);
    if (asked.offset < asked.topic->end) answer_fetch(to, &asked);
    else to->waiting = asked;
}

static void handle(struct connection *from, uint8_t *frame) {
    int key = read_u16(frame), version = read_u16(frame + 2);
    int32_t correlation = (int32_t)read_u32(frame + 4);
    int16_t client = (int16_t)read_u16(frame + 8);
    uint8_t *body = frame + 10 + (client > 0 ? client : 0);
    struct topic *changed;
    switch (key) {
    case API_VERSIONS: api_versions(from, correlation, version); break;
    case METADATA: metadata(from, correlation, body); break;
    case CREATE_TOPICS: create_topics(from, correlation, body); break;
    case LIST_OFFSETS: list_offsets(from, correlation, body); break;
    case FETCH: fetch(from, correlation, body); break;
    case PRODUCE:
        changed = produce(from, correlation, body);
        if (changed) wake(changed);
        break;
    default: fprintf(stderr, "no such request here: %d\n", key); exit(2);
    }
}

/* -- connections */

static void drop(struct connection *one) {
    connections[one->socket] = NULL;
    close(one->socket);
    free(one->in);
    free(one->out);
    free(one);
}

/* Handles what is there whole, as long as no answer waits for a file's bytes to leave. */
static void take(struct connection *one) {
    size_t at = 0;
    while (!one->file_left && !one->waiting.topic && one->in_used - at >= 4) {
        size_t size = read_u32(one->in + at);
        if (one->in_used - at - 4 < size) {
            if (size + 4 > one->in_room) {
                one->in_room = size + 4;
                one->in = realloc(one->in, one->in_room);
                if (!one->in) die("realloc");
            }
            break;
        }
        handle(one, one->in + at + 4);
        at += 4 + size;
    }
    memmove(one->in, one->in + at, one->in_used - at);
    one->in_used -= at;
}

static void serve(struct connection *one, uint32_t events) {
    if (events & EPOLLOUT) {
        if (!flush(one)) return;
        watch(one, EPOLLIN);
        take(one);
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (one->in_used < one->in_room) {
            ssize_t got = recv(one->socket, one->in + one->in_used, one->in_room - one->in_used, 0);
            if (!got || (got < 0 && errno != EAGAIN)) {
                drop(one);
                return;
            }
            one->in_used += got > 0 ? (size_t)got : 0;
        }
        take(one);
    }
    while (flush(one)) {
        size_t before = one->in_used;
        take(one);
        if (one->in_used == before) break;
    }
}

static void accept_one(int listening) {
    int socket = accept4(listening, NULL, NULL, SOCK_NONBLOCK), yes = 1;
    if (socket < 0 || socket >= MOST_DESCRIPTORS) return;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct connection *one = calloc(1, sizeof *one);
    one->socket = socket;
    one->in_room = 256 * 1024;
    one->in = malloc(one->in_room);
    connections[socket] = one;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = socket};
    epoll_ctl(polling, EPOLL_CTL_ADD, socket, &event);
}

static int answer_who_waited_long(void) {
    int64_t now = now_ms(), next = 60000;
    for (int descriptor = 0; descriptor < MOST_DESCRIPTORS; descriptor++) {
        struct connection *one = connections[descriptor];
        if (!one || !one->waiting.topic) continue;
        int64_t left = one->waiting.until_ms - now;
        if (left > 0) {
            if (left < next) next = left;
            continue;
        }
        struct waiting asked = one->waiting;
        one->waiting.topic = NULL;
        answer_fetch(one, &asked);
        flush(one);
    }
    return (int)next;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "floor PORT DIRECTORY\n");
        return 2;
    }
    port = atoi(arguments[1]);
    directory = arguments[2];
    int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listening, (struct sockaddr *)&here, sizeof here) || listen(listening, 128)) die("listen");
    polling = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening};
    epoll_ctl(polling, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        struct epoll_event events[64];
        int ready = epoll_wait(polling, events, 64, answer_who_waited_long());
        for (int index = 0; index < ready; index++) {
            int descriptor = events[index].data.fd;
            if (descriptor == listening) accept_one(listening);
            else if (connections[descriptor]) serve(connections[descriptor], events[index].events);
        }
    }
}
