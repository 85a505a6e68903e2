// franz-go against one broker or several: the newest versions of the protocol from Go.
//
// checks HOST:PORT,... (every broker) prints a line of JSON for each check: {"check", "ok", "detail"}.
// checks secured TOPIC PAUSE writes and reads with the login that standard input has (secured.go).
// checks HOST:PORT,... share does the same for share groups (share.go).
// checks HOST:PORT,... guess prints which release of Kafka each broker is, as kminion and kadm guess it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	timeout         = 30 * time.Second
	baseTimestampMs = 1_700_000_000_000
)

var (
	brokers []string
	admin   *kadm.Client
	codecs  = []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()},
		{"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()},
		{"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	}
)

type check struct {
	name string
	run  func(ctx context.Context) error
}

func main() {
	if len(os.Args) > 3 && os.Args[1] == "secured" {
		if err := secured(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	brokers = strings.Split(os.Args[1], ",")
	client, err := newClient()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	admin = kadm.NewClient(client)
	if len(os.Args) > 2 && os.Args[2] == "guess" {
		os.Exit(guess())
	}
	chosen := checks()
	if len(os.Args) > 2 && os.Args[2] == "share" {
		chosen = shareChecks()
	}
	for _, each := range chosen {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		detail := ""
		if err := each.run(ctx); err != nil {
			detail = err.Error()
		}
		cancel()
		line, _ := json.Marshal(map[string]any{"check": each.name, "ok": detail == "", "detail": detail})
		fmt.Println(string(line))
	}
}

func guess() int {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	versions, err := admin.ApiVersions(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, each := range versions.Sorted() {
		fmt.Println(each.VersionGuess())
	}
	return 0
}

func checks() []check {
	var all []check
	for _, each := range codecs {
		all = append(all,
			check{"round trip " + each.name, func(ctx context.Context) error { return roundTrip(ctx, each.codec, false) }},
			check{"round trip " + each.name + " idempotent", func(ctx context.Context) error { return roundTrip(ctx, each.codec, true) }},
		)
	}
	return append(all,
		check{"acks 0", func(ctx context.Context) error { return acks(ctx, kgo.NoAck()) }},
		check{"acks 1", func(ctx context.Context) error { return acks(ctx, kgo.LeaderAck()) }},
		check{"acks all", func(ctx context.Context) error { return acks(ctx, kgo.AllISRAcks()) }},
		check{"middle of a batch", middleOfBatch},
		check{"offsets by timestamp", offsetsByTimestamp},
		check{"group resumes", func(ctx context.Context) error { return groupResumes(ctx) }},
		check{"transaction committed", func(ctx context.Context) error { return transaction(ctx, kgo.TryCommit) }},
		check{"transaction aborted", func(ctx context.Context) error { return transaction(ctx, kgo.TryAbort) }},
		check{"offsets in a transaction", func(ctx context.Context) error { return offsetsInTransaction(ctx) }},
		check{"consumer protocol", func(ctx context.Context) error { return groupResumes(ctx, consumerProtocol()) }},
		check{"offsets in a transaction, consumer protocol", func(ctx context.Context) error { return offsetsInTransaction(ctx, consumerProtocol()) }},
		check{"topics administered", topicsAdministered},
		check{"configs described and altered", configs},
		check{"records deleted", recordsDeleted},
		check{"cluster described", clusterDescribed},
		check{"log dirs described", logDirs},
		check{"record too large", recordTooLarge},
		check{"topic created by producer", autoCreation},
		check{"offset out of range", offsetOutOfRange},
	)
}

func newClient(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(brokers...), kgo.FetchMaxWait(100 * time.Millisecond)}, options...)...)
}

func fresh(prefix string) string { return fmt.Sprintf("%s-%012x", prefix, rand.Uint64()>>16) }

// The samples of client_samples.py.
func samples(topic string, count int) []*kgo.Record {
	var records []*kgo.Record
	for number := range count {
		record := &kgo.Record{
			Topic:     topic,
			Key:       []byte(fmt.Sprintf("key-%d", number)),
			Value:     []byte(fmt.Sprintf("value-%d-", number) + strings.Repeat("abcdefghij", 60)),
			Timestamp: time.UnixMilli(baseTimestampMs + int64(number)*1000),
		}
		switch number % 8 {
		case 0:
			record.Key = nil
		case 1:
			record.Value = nil
		case 2:
			record.Key, record.Value = []byte{}, []byte{}
		case 3:
			record.Headers = []kgo.RecordHeader{
				{Key: "trace", Value: []byte{0, 1, 255}}, {Key: "void"}, {Key: "blank", Value: []byte{}}, {Key: "trace", Value: []byte("zwei-ü")},
			}
		case 4:
			record.Value = make([]byte, 1024)
			for i := range record.Value {
				record.Value[i] = byte(i)
			}
		}
		records = append(records, record)
	}
	return records
}

func newTopic(ctx context.Context, partitions int32, settings ...string) (string, error) {
	name := fresh("topic")
	configs := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	answer, err := admin.CreateTopic(ctx, partitions, int16(len(brokers)), configs, name)
	return name, errors.Join(err, answer.Err)
}

func send(ctx context.Context, records []*kgo.Record, options ...kgo.Opt) error {
	client, err := newClient(append(options, kgo.ProducerLinger(20*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.ProduceSync(ctx, records...).FirstErr()
}

func sendSamples(ctx context.Context, topic string, count int) error {
	return send(ctx, samples(topic, count))
}

func receive(ctx context.Context, client *kgo.Client, count int) ([]*kgo.Record, error) {
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollRecords(ctx, count-len(records))
		if err := fetches.Err(); err != nil {
			return records, fmt.Errorf("%d of %d records: %w", len(records), count, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records, nil
}

func readFrom(ctx context.Context, topic string, offset int64, count int, options ...kgo.Opt) ([]*kgo.Record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(offset)}}
	client, err := newClient(append(options, kgo.ConsumePartitions(start), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return receive(ctx, client, count)
}

func haveOffsets(records []*kgo.Record, start, end int64) error {
	if int64(len(records)) != end-start {
		return fmt.Errorf("expected %d records, found %d", end-start, len(records))
	}
	for i, record := range records {
		if record.Offset != start+int64(i) {
			return fmt.Errorf("expected offset %d, found %d", start+int64(i), record.Offset)
		}
	}
	return nil
}

func equal(what string, expected, found any) error {
	if fmt.Sprint(expected) != fmt.Sprint(found) {
		return fmt.Errorf("%s: expected %v, found %v", what, expected, found)
	}
	return nil
}

func same(one, other []byte) bool { return bytes.Equal(one, other) && (one == nil) == (other == nil) }

func refused(expected, found error) error {
	if !errors.Is(found, expected) {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}

func eventually(ctx context.Context, condition func() bool) error {
	for !condition() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func roundTrip(ctx context.Context, codec kgo.CompressionCodec, idempotent bool) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	options := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	sent := samples(topic, 40)
	if err := send(ctx, sent, options...); err != nil {
		return err
	}
	if err := haveOffsets(sent, 0, 40); err != nil {
		return err
	}
	found, err := readFrom(ctx, topic, 0, 40)
	if err != nil {
		return err
	}
	for i, record := range found {
		if !same(record.Key, sent[i].Key) || !same(record.Value, sent[i].Value) || !record.Timestamp.Equal(sent[i].Timestamp) {
			return fmt.Errorf("another record at offset %d", record.Offset)
		}
		if len(record.Headers) != len(sent[i].Headers) {
			return fmt.Errorf("%d headers at offset %d", len(record.Headers), record.Offset)
		}
		for j, header := range record.Headers {
			if header.Key != sent[i].Headers[j].Key || !same(header.Value, sent[i].Headers[j].Value) {
				return fmt.Errorf("another header %q at offset %d", header.Key, record.Offset)
			}
		}
	}
	return haveOffsets(found, 0, 40)
}

func acks(ctx context.Context, setting kgo.Acks) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	// Also tells that the new leader serves: without acknowledgement nobody else would.
	serves := func() bool { ends, err := admin.ListEndOffsets(ctx, topic); return err == nil && ends.Error() == nil }
	if err := eventually(ctx, serves); err != nil {
		return err
	}
	if err := send(ctx, samples(topic, 8), kgo.RequiredAcks(setting), kgo.DisableIdempotentWrite()); err != nil {
		return err
	}
	found, err := readFrom(ctx, topic, 0, 8)
	return errors.Join(err, haveOffsets(found, 0, 8))
}

func middleOfBatch(ctx context.Context) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := send(ctx, samples(topic, 40), kgo.ProducerBatchCompression(kgo.GzipCompression())); err != nil {
		return err
	}
	found, err := readFrom(ctx, topic, 17, 23)
	return errors.Join(err, haveOffsets(found, 17, 40))
}

func offsetsByTimestamp(ctx context.Context) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := sendSamples(ctx, topic, 20); err != nil {
		return err
	}
	at := func(listed kadm.ListedOffsets, err error) any {
		one, _ := listed.Lookup(topic, 0)
		return fmt.Sprint(one.Offset, err, one.Err)
	}
	return errors.Join(
		equal("earliest", "0 <nil> <nil>", at(admin.ListStartOffsets(ctx, topic))),
		equal("latest", "20 <nil> <nil>", at(admin.ListEndOffsets(ctx, topic))),
		equal("committed", "20 <nil> <nil>", at(admin.ListCommittedOffsets(ctx, topic))),
		equal("max timestamp", "19 <nil> <nil>", at(admin.ListMaxTimestampOffsets(ctx, topic))),
		equal("at 12 s", "12 <nil> <nil>", at(admin.ListOffsetsAfterMilli(ctx, baseTimestampMs+12_000, topic))),
	)
}

// consumerProtocol asks for KIP-848's protocol; franz-go takes the classic one where the cluster has it not.
func consumerProtocol() kgo.Opt {
	return kgo.ServerSideBalancer()
}

func groupResumes(ctx context.Context, options ...kgo.Opt) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	group := fresh("group")
	if err := sendSamples(ctx, topic, 12); err != nil {
		return err
	}
	consumer := func() (*kgo.Client, error) {
		return newClient(append(options, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	}
	first, err := consumer()
	if err != nil {
		return err
	}
	found, err := receive(ctx, first, 5)
	if err = errors.Join(err, haveOffsets(found, 0, 5)); err != nil {
		first.Close()
		return err
	}
	err = first.CommitRecords(ctx, found...)
	first.Close()
	if err != nil {
		return err
	}
	second, err := consumer()
	if err != nil {
		return err
	}
	rest, err := receive(ctx, second, 7)
	if len(options) == 0 { // of the other protocol it is DescribeConsumerGroups that would tell
		groups, describeErr := admin.DescribeGroups(ctx, group)
		err = errors.Join(err, describeErr, equal("state", "Stable", groups[group].State))
	}
	second.Close()
	if err := errors.Join(err, haveOffsets(rest, 5, 12)); err != nil {
		return err
	}
	var commit kadm.Offsets
	commit.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7, LeaderEpoch: 0, Metadata: "half-way ü"})
	if err := eventually(ctx, func() bool { return admin.CommitAllOffsets(ctx, group, commit) == nil }); err != nil {
		return err
	}
	fetched, err := admin.FetchOffsets(ctx, group)
	one, _ := fetched.Lookup(topic, 0)
	listed, listErr := admin.ListGroups(ctx)
	_, isListed := listed[group]
	_, deleteErr := admin.DeleteGroup(ctx, group)
	_, again := admin.DeleteGroup(ctx, group)
	return errors.Join(err, listErr, deleteErr, refused(kerr.GroupIDNotFound, again),
		equal("committed", "7 half-way ü", fmt.Sprint(one.At, " ", one.Metadata)), equal("listed", true, isListed))
}

func transaction(ctx context.Context, end kgo.TransactionEndTry) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	client, err := newClient(kgo.TransactionalID(fresh("tx")))
	if err != nil {
		return err
	}
	defer client.Close()
	for range 2 { // the second transaction of a producer meets the state that the first one left
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := errors.Join(client.ProduceSync(ctx, samples(topic, 6)...).FirstErr(), client.EndTransaction(ctx, end)); err != nil {
			return err
		}
	}
	if err := send(ctx, []*kgo.Record{{Topic: topic, Value: []byte("last")}}); err != nil {
		return err
	}
	wanted := 1
	if end == kgo.TryCommit {
		wanted = 13
	}
	found, err := readFrom(ctx, topic, 0, wanted, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	last := found[wanted-1] // 6 records, a marker, 6 records and a marker lie before it
	return errors.Join(equal("the last record", "last", string(last.Value)), equal("its offset", 14, last.Offset))
}

// offsetsInTransaction consumes and produces in transactions: what an aborted one took comes again.
func offsetsInTransaction(ctx context.Context, options ...kgo.Opt) error {
	input, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	output, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := sendSamples(ctx, input, 6); err != nil {
		return err
	}
	group := fresh("group")
	session, err := kgo.NewGroupTransactSession(append(options, kgo.SeedBrokers(brokers...), kgo.TransactionalID(fresh("tx")),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(input), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets())...)
	if err != nil {
		return err
	}
	defer session.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := session.Begin(); err != nil {
			return err
		}
		taken := 0
		for taken < 6 {
			fetches := session.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("%d of 6 records: %w", taken, err)
			}
			for _, record := range fetches.Records() {
				taken++
				if err := session.ProduceSync(ctx, &kgo.Record{Topic: output, Value: fmt.Append(nil, record.Offset)}).FirstErr(); err != nil {
					return err
				}
			}
		}
		committed, err := session.End(ctx, end)
		if err = errors.Join(err, equal("committed", end == kgo.TryCommit, committed)); err != nil {
			return err
		}
	}
	// A transaction is committed once its coordinator has written so: the group's partition learns of it later.
	if err := eventually(ctx, func() bool {
		fetched, err := admin.FetchOffsets(ctx, group)
		one, _ := fetched.Lookup(input, 0)
		return err == nil && one.At == 6
	}); err != nil {
		return fmt.Errorf("committed offset: %w", err)
	}
	found, err := readFrom(ctx, output, 0, 6, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	for i, record := range found {
		err = errors.Join(err, equal("a record", i, string(record.Value)), equal("its offset", i+7, record.Offset))
	}
	return err
}

func topicsAdministered(ctx context.Context) error {
	name, err := newTopic(ctx, 3)
	if err != nil {
		return err
	}
	described, err := admin.ListTopics(ctx, name)
	if err = errors.Join(err, equal("partitions", 3, len(described[name].Partitions))); err != nil {
		return err
	}
	_, exists := admin.CreateTopic(ctx, 1, 1, nil, name)
	_, illegal := admin.CreateTopic(ctx, 1, 1, nil, "no spaces")
	_, replicas := admin.CreateTopic(ctx, 1, 9, nil, fresh("replicas"))
	grown, err := admin.CreatePartitions(ctx, 2, name)
	err = errors.Join(err, grown.Error(), refused(kerr.TopicAlreadyExists, exists),
		refused(kerr.InvalidTopicException, illegal), refused(kerr.InvalidReplicationFactor, replicas))
	if err != nil {
		return err
	}
	if err := eventually(ctx, func() bool {
		now, err := admin.ListTopics(ctx, name)
		return err == nil && len(now[name].Partitions) == 5
	}); err != nil {
		return err
	}
	if _, err := admin.DeleteTopic(ctx, name); err != nil {
		return err
	}
	if err := eventually(ctx, func() bool {
		now, err := admin.ListTopics(ctx, name)
		return err == nil && errors.Is(now[name].Err, kerr.UnknownTopicOrPartition)
	}); err != nil {
		return err
	}
	_, unknown := admin.DeleteTopic(ctx, fresh("nowhere"))
	return refused(kerr.UnknownTopicOrPartition, unknown)
}

func configs(ctx context.Context) error {
	name, err := newTopic(ctx, 1, "retention.ms", "123456")
	if err != nil {
		return err
	}
	value := func(key string) string {
		described, err := admin.DescribeTopicConfigs(ctx, name)
		if err != nil || len(described) != 1 {
			return fmt.Sprint(err)
		}
		for _, config := range described[0].Configs {
			if config.Key == key {
				return config.MaybeValue()
			}
		}
		return "absent"
	}
	// Whichever broker is asked may hear of the topic a moment later.
	if err := eventually(ctx, func() bool { return value("retention.ms") == "123456" }); err != nil {
		return err
	}
	if err := equal("segment.bytes", "1073741824", value("segment.bytes")); err != nil {
		return err
	}
	compact := "compact"
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.DeleteConfig, Name: "retention.ms"}, {Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &compact},
	}, name)
	if err = errors.Join(err, altered[0].Err); err != nil {
		return err
	}
	if err := eventually(ctx, func() bool { return value("cleanup.policy") == "delete,compact" }); err != nil {
		return err
	}
	return equal("retention.ms", "604800000", value("retention.ms"))
}

func recordsDeleted(ctx context.Context) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := sendSamples(ctx, topic, 20); err != nil {
		return err
	}
	var before kadm.Offsets
	before.Add(kadm.Offset{Topic: topic, Partition: 0, At: 7})
	deleted, err := admin.DeleteRecords(ctx, before)
	one, _ := deleted.Lookup(topic, 0)
	found, readErr := readFrom(ctx, topic, 7, 13)
	return errors.Join(err, one.Err, equal("low watermark", 7, one.LowWatermark), readErr, haveOffsets(found, 7, 20))
}

func clusterDescribed(ctx context.Context) error {
	metadata, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	var found []string
	for _, one := range metadata.Brokers {
		found = append(found, fmt.Sprintf("%s:%d", one.Host, one.Port))
	}
	slices.Sort(found)
	return errors.Join(equal("addresses", slices.Sorted(slices.Values(brokers)), found),
		equal("controller is one of them", true, slices.Contains(metadata.Brokers.NodeIDs(), metadata.Controller)),
		equal("length of the cluster's id", 22, len(metadata.Cluster)))
}

func logDirs(ctx context.Context) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := sendSamples(ctx, topic, 6); err != nil {
		return err
	}
	var wanted kadm.TopicsSet
	wanted.Add(topic, 0)
	described, err := admin.DescribeAllLogDirs(ctx, wanted)
	if err != nil {
		return err
	}
	size := int64(0)
	described.Each(func(directory kadm.DescribedLogDir) { size += directory.Size() })
	if size == 0 {
		return errors.New("no bytes")
	}
	return nil
}

func recordTooLarge(ctx context.Context) error {
	topic, err := newTopic(ctx, 1, "max.message.bytes", "1000")
	if err != nil {
		return err
	}
	plain := kgo.ProducerBatchCompression(kgo.NoCompression())
	large := send(ctx, []*kgo.Record{{Topic: topic, Value: bytes.Repeat([]byte("x"), 2000)}}, plain)
	small := send(ctx, []*kgo.Record{{Topic: topic, Value: []byte("x")}}, plain)
	return errors.Join(refused(kerr.MessageTooLarge, large), small)
}

func autoCreation(ctx context.Context) error {
	record := &kgo.Record{Topic: fresh("auto"), Value: []byte("first")}
	return errors.Join(send(ctx, []*kgo.Record{record}, kgo.AllowAutoTopicCreation()), equal("offset", 0, record.Offset))
}

func offsetOutOfRange(ctx context.Context) error {
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	if err := sendSamples(ctx, topic, 3); err != nil {
		return err
	}
	_, err = readFrom(ctx, topic, 1000, 1)
	return refused(kerr.OffsetOutOfRange, err)
}
