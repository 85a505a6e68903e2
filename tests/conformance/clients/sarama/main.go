// sarama against one broker: the other widespread client from Go, with encoders and state machines of its own.
//
// checks HOST:PORT prints a line of JSON for each check: {"check", "ok", "detail"}.
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

	"github.com/IBM/sarama"
)

const (
	timeout         = 30 * time.Second
	baseTimestampMs = 1_700_000_000_000
)

var (
	addresses []string
	admin     sarama.ClusterAdmin
	codecs    = []struct {
		name  string
		codec sarama.CompressionCodec
	}{
		{"none", sarama.CompressionNone},
		{"gzip", sarama.CompressionGZIP},
		{"snappy", sarama.CompressionSnappy},
		{"lz4", sarama.CompressionLZ4},
		{"zstd", sarama.CompressionZSTD},
	}
)

type check struct {
	name string
	run  func() error
}

func main() {
	addresses = strings.Split(os.Args[1], ",")
	var err error
	if admin, err = sarama.NewClusterAdmin(addresses, newConfig()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, each := range checks() {
		detail := ""
		if err := within(timeout, each.run); err != nil {
			detail = err.Error()
		}
		line, _ := json.Marshal(map[string]any{"check": each.name, "ok": detail == "", "detail": detail})
		fmt.Println(string(line))
	}
}

func checks() []check {
	var all []check
	for _, each := range codecs {
		all = append(all,
			check{"round trip " + each.name, func() error { return roundTrip(each.codec, false) }},
			check{"round trip " + each.name + " idempotent", func() error { return roundTrip(each.codec, true) }},
		)
	}
	return append(all,
		check{"acks 0", func() error { return acks(sarama.NoResponse) }},
		check{"acks 1", func() error { return acks(sarama.WaitForLocal) }},
		check{"acks all", func() error { return acks(sarama.WaitForAll) }},
		check{"middle of a batch", middleOfBatch},
		check{"offsets by timestamp", offsetsByTimestamp},
		check{"group resumes", groupResumes},
		check{"groups administered", groupsAdministered},
		check{"transaction committed", func() error { return transaction(true) }},
		check{"transaction aborted", func() error { return transaction(false) }},
		check{"offsets in a transaction", offsetsInTransaction},
		check{"transactional producer fenced", fenced},
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

// within runs a check; sarama's calls take no context.
func within(limit time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("not done within %v", limit)
	}
}

func newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Return.Errors = true
	config.Metadata.AllowAutoTopicCreation = false
	return config
}

func fresh(prefix string) string { return fmt.Sprintf("%s-%012x", prefix, rand.Uint64()>>16) }

// The samples of client_samples.py. Sarama takes no empty value that is not null: those are left out here.
func samples(topic string, count int) []*sarama.ProducerMessage {
	var records []*sarama.ProducerMessage
	for number := range count {
		record := &sarama.ProducerMessage{
			Topic:     topic,
			Key:       sarama.StringEncoder(fmt.Sprintf("key-%d", number)),
			Value:     sarama.StringEncoder(fmt.Sprintf("value-%d-", number) + strings.Repeat("abcdefghij", 60)),
			Timestamp: time.UnixMilli(baseTimestampMs + int64(number)*1000),
		}
		switch number % 8 {
		case 0:
			record.Key = nil
		case 1:
			record.Value = nil
		case 3:
			record.Headers = []sarama.RecordHeader{
				{Key: []byte("trace"), Value: []byte{0, 1, 255}}, {Key: []byte("void")}, {Key: []byte("trace"), Value: []byte("zwei-ü")},
			}
		case 4:
			value := make([]byte, 1024)
			for i := range value {
				value[i] = byte(i)
			}
			record.Value = sarama.ByteEncoder(value)
		}
		records = append(records, record)
	}
	return records
}

func newTopic(partitions int32, settings ...string) (string, error) {
	name := fresh("topic")
	entries := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		entries[settings[i]] = &settings[i+1]
	}
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: int16(len(addresses)), ConfigEntries: entries}
	return name, admin.CreateTopic(name, detail, false)
}

func send(records []*sarama.ProducerMessage, change func(*sarama.Config)) error {
	config := newConfig()
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	if change != nil {
		change(config)
	}
	producer, err := sarama.NewSyncProducer(addresses, config)
	if err != nil {
		return err
	}
	return errors.Join(producer.SendMessages(records), producer.Close())
}

func sendSamples(topic string, count int) error { return send(samples(topic, count), nil) }

func read(topic string, offset int64, count int, change func(*sarama.Config)) ([]*sarama.ConsumerMessage, error) {
	config := newConfig()
	if change != nil {
		change(config)
	}
	consumer, err := sarama.NewConsumer(addresses, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, offset)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	var found []*sarama.ConsumerMessage
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case err := <-partition.Errors():
			return found, err
		case <-time.After(timeout / 2):
			return found, fmt.Errorf("%d of %d records", len(found), count)
		}
	}
	return found, nil
}

func haveOffsets(records []*sarama.ConsumerMessage, start, end int64) error {
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

func refused(expected, found error) error {
	if !errors.Is(found, expected) {
		return fmt.Errorf("expected %v, found %v", expected, found)
	}
	return nil
}

func eventually(condition func() bool) error {
	for deadline := time.Now().Add(timeout / 2); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("it never came to hold")
		}
	}
	return nil
}

func encoded(value sarama.Encoder) []byte {
	if value == nil {
		return nil
	}
	data, _ := value.Encode()
	return data
}

func roundTrip(codec sarama.CompressionCodec, idempotent bool) error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	sent := samples(topic, 40)
	err = send(sent, func(config *sarama.Config) {
		config.Producer.Compression = codec
		if idempotent {
			config.Producer.Idempotent = true
			config.Net.MaxOpenRequests = 1
		}
	})
	if err != nil {
		return err
	}
	found, err := read(topic, 0, 40, nil)
	if err = errors.Join(err, haveOffsets(found, 0, 40)); err != nil {
		return err
	}
	for i, record := range found {
		if sent[i].Offset != int64(i) {
			return fmt.Errorf("record %d was acknowledged at offset %d", i, sent[i].Offset)
		}
		key, value := encoded(sent[i].Key), encoded(sent[i].Value)
		if !bytes.Equal(record.Key, key) || !bytes.Equal(record.Value, value) || !record.Timestamp.Equal(sent[i].Timestamp) {
			return fmt.Errorf("another record at offset %d", record.Offset)
		}
		if len(record.Headers) != len(sent[i].Headers) {
			return fmt.Errorf("%d headers at offset %d", len(record.Headers), record.Offset)
		}
		for j, header := range record.Headers {
			if !bytes.Equal(header.Key, sent[i].Headers[j].Key) || !bytes.Equal(header.Value, sent[i].Headers[j].Value) {
				return fmt.Errorf("another header %q at offset %d", header.Key, record.Offset)
			}
		}
	}
	return nil
}

func acks(required sarama.RequiredAcks) error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	// Also tells that the new leader serves: without acknowledgement nobody else would.
	if err := eventually(func() bool { _, err := latest(topic); return err == nil }); err != nil {
		return err
	}
	err = send(samples(topic, 8), func(config *sarama.Config) { config.Producer.RequiredAcks = required })
	found, readErr := read(topic, 0, 8, nil)
	return errors.Join(err, readErr, haveOffsets(found, 0, 8))
}

func offsetAt(topic string, when int64) (int64, error) {
	asked := map[string]map[int32]int64{topic: {0: when}}
	listed, err := admin.ListOffsets(asked, nil)
	if err != nil {
		return -1, err
	}
	one := listed[topic][0]
	if one == nil {
		return -1, errors.New("no answer")
	}
	if one.Err != sarama.ErrNoError {
		return -1, one.Err
	}
	return one.Offset, nil
}

func latest(topic string) (int64, error) { return offsetAt(topic, sarama.OffsetNewest) }

func middleOfBatch() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	err = send(samples(topic, 40), func(config *sarama.Config) { config.Producer.Compression = sarama.CompressionGZIP })
	if err != nil {
		return err
	}
	found, err := read(topic, 17, 23, nil)
	return errors.Join(err, haveOffsets(found, 17, 40))
}

func offsetsByTimestamp() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := sendSamples(topic, 20); err != nil {
		return err
	}
	at := func(when int64) any {
		offset, err := offsetAt(topic, when)
		return fmt.Sprint(offset, err)
	}
	return errors.Join(
		equal("earliest", "0 <nil>", at(sarama.OffsetOldest)),
		equal("latest", "20 <nil>", at(sarama.OffsetNewest)),
		equal("at 12 s", "12 <nil>", at(baseTimestampMs+12_000)),
		equal("after all", "-1 <nil>", at(baseTimestampMs+99_000)),
	)
}

// collector takes so many records in a group, marks and commits them, and ends its session.
type collector struct {
	count  int
	found  []*sarama.ConsumerMessage
	cancel context.CancelFunc
}

func (c *collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c *collector) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		c.found = append(c.found, message)
		session.MarkMessage(message, "half-way ü")
		if len(c.found) == c.count {
			session.Commit()
			c.cancel()
			return nil
		}
	}
	return nil
}

func collect(group, topic string, count int) ([]*sarama.ConsumerMessage, error) {
	member, err := sarama.NewConsumerGroup(addresses, group, newConfig())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout/2)
	defer cancel()
	taken := &collector{count: count, cancel: cancel}
	for ctx.Err() == nil && err == nil {
		err = member.Consume(ctx, []string{topic}, taken)
	}
	return taken.found, errors.Join(err, member.Close())
}

func groupResumes() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := sendSamples(topic, 12); err != nil {
		return err
	}
	group := fresh("group")
	first, err := collect(group, topic, 5)
	if err = errors.Join(err, haveOffsets(first, 0, 5)); err != nil {
		return err
	}
	second, err := collect(group, topic, 7)
	return errors.Join(err, haveOffsets(second, 5, 12))
}

func groupsAdministered() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := sendSamples(topic, 3); err != nil {
		return err
	}
	group := fresh("group")
	if _, err := collect(group, topic, 3); err != nil {
		return err
	}
	listed, err := admin.ListConsumerGroups()
	if err != nil {
		return err
	}
	kind, isListed := listed[group]
	described, err := admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return err
	}
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return err
	}
	block := offsets.GetBlock(topic, 0)
	err = errors.Join(equal("listed", "true consumer", fmt.Sprint(isListed, " ", kind)), equal("state", "Empty", described[0].State),
		equal("committed", "3 half-way ü", fmt.Sprint(block.Offset, " ", block.Metadata)),
		admin.DeleteConsumerGroupOffset(group, topic, 0))
	if err != nil {
		return err
	}
	if offsets, err = admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}); err != nil {
		return err
	}
	if err := equal("deleted", -1, offsets.GetBlock(topic, 0).Offset); err != nil {
		return err
	}
	// Whether the group outlived its last offset differs from version to version of Kafka.
	if err := admin.DeleteConsumerGroup(group); err != nil && !errors.Is(err, sarama.ErrGroupIDNotFound) {
		return err
	}
	return refused(sarama.ErrGroupIDNotFound, admin.DeleteConsumerGroup(group))
}

func transactional(id string) (sarama.SyncProducer, error) {
	config := newConfig()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Transaction.ID = id
	return sarama.NewSyncProducer(addresses, config)
}

func transaction(commits bool) error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	producer, err := transactional(fresh("transactional"))
	if err != nil {
		return err
	}
	defer producer.Close()
	for round := range 2 { // the second transaction of a producer meets the state that the first one left
		if err := errors.Join(producer.BeginTxn(), producer.SendMessages(samples(topic, 6))); err != nil {
			return err
		}
		end := producer.AbortTxn
		if commits {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := send([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.StringEncoder("last")}}, nil); err != nil {
		return err
	}
	wanted := 1
	if commits {
		wanted = 13
	}
	found, err := read(topic, 0, wanted, func(config *sarama.Config) { config.Consumer.IsolationLevel = sarama.ReadCommitted })
	if err != nil {
		return err
	}
	// Two markers lie between: 6 records, a marker, 6 records, a marker, the last.
	return errors.Join(equal("the last record", "last", string(found[wanted-1].Value)), equal("its offset", 14, found[wanted-1].Offset))
}

func offsetsInTransaction() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	group := fresh("group")
	producer, err := transactional(fresh("transactional"))
	if err != nil {
		return err
	}
	defer producer.Close()
	committed := func() (int64, error) {
		answer, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
		if err != nil {
			return -1, err
		}
		return answer.GetBlock(topic, 0).Offset, nil
	}
	for round, want := range []int64{-1, 9} { // aborted first, then committed
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 9}}}
		if err := errors.Join(producer.BeginTxn(), producer.SendMessages(samples(topic, 3)), producer.AddOffsetsToTxn(offsets, group)); err != nil {
			return err
		}
		end := producer.AbortTxn
		if round == 1 {
			end = producer.CommitTxn
		}
		if err := end(); err != nil {
			return err
		}
		if err := eventually(func() bool { offset, err := committed(); return err == nil && offset == want }); err != nil {
			offset, _ := committed()
			return fmt.Errorf("round %d: committed is %d: %w", round, offset, err)
		}
	}
	return nil
}

func fenced() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	id := fresh("transactional")
	first, err := transactional(id)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := errors.Join(first.BeginTxn(), first.SendMessages(samples(topic, 2))); err != nil {
		return err
	}
	second, err := transactional(id)
	if err != nil {
		return err
	}
	defer second.Close()
	err = errors.Join(second.BeginTxn(), second.SendMessages(samples(topic, 2)), second.CommitTxn())
	if err != nil {
		return err
	}
	late := first.CommitTxn()
	if late == nil {
		return errors.New("the first producer could still commit")
	}
	found, err := read(topic, 0, 2, func(config *sarama.Config) { config.Consumer.IsolationLevel = sarama.ReadCommitted })
	// Two records and an abort marker of the first come before.
	return errors.Join(err, equal("first committed offset", 3, found[0].Offset))
}

func topicsAdministered() error {
	name, err := newTopic(3)
	if err != nil {
		return err
	}
	described, err := admin.DescribeTopics([]string{name})
	if err != nil {
		return err
	}
	detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}
	many := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 9}
	err = errors.Join(equal("partitions", 3, len(described[0].Partitions)),
		refused(sarama.ErrTopicAlreadyExists, admin.CreateTopic(name, detail, false)),
		refused(sarama.ErrInvalidTopic, admin.CreateTopic("no spaces", detail, false)),
		refused(sarama.ErrInvalidReplicationFactor, admin.CreateTopic(fresh("replicas"), many, false)),
		admin.CreatePartitions(name, 5, nil, false))
	if err != nil {
		return err
	}
	if err := eventually(func() bool {
		now, err := admin.DescribeTopics([]string{name})
		return err == nil && len(now[0].Partitions) == 5
	}); err != nil {
		return err
	}
	if err := admin.DeleteTopic(name); err != nil {
		return err
	}
	if err := eventually(func() bool {
		now, err := admin.DescribeTopics([]string{name})
		return err == nil && now[0].Err == sarama.ErrUnknownTopicOrPartition
	}); err != nil {
		return err
	}
	return refused(sarama.ErrUnknownTopicOrPartition, admin.DeleteTopic(fresh("nowhere")))
}

func configs() error {
	name, err := newTopic(1, "retention.ms", "123456")
	if err != nil {
		return err
	}
	value := func(key string) string {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: []string{key}})
		if err != nil || len(entries) != 1 {
			return fmt.Sprint(err, len(entries))
		}
		return entries[0].Value
	}
	// Whichever broker is asked may hear of the topic a moment later.
	if err := eventually(func() bool { return value("retention.ms") == "123456" }); err != nil {
		return err
	}
	if err := equal("segment.bytes", "1073741824", value("segment.bytes")); err != nil {
		return err
	}
	compact := "compact"
	err = admin.IncrementalAlterConfig(sarama.TopicResource, name, map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms":   {Operation: sarama.IncrementalAlterConfigsOperationDelete},
		"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: &compact},
	}, false)
	if err != nil {
		return err
	}
	if err := eventually(func() bool { return value("cleanup.policy") == "delete,compact" }); err != nil {
		return err
	}
	return equal("retention.ms", "604800000", value("retention.ms"))
}

func recordsDeleted() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := errors.Join(sendSamples(topic, 20), admin.DeleteRecords(topic, map[int32]int64{0: 7})); err != nil {
		return err
	}
	first, err := offsetAt(topic, sarama.OffsetOldest)
	found, readErr := read(topic, 7, 13, nil)
	return errors.Join(err, equal("start", 7, first), readErr, haveOffsets(found, 7, 20))
}

func clusterDescribed() error {
	brokers, controller, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	var found []string
	controllers := 0
	for _, one := range brokers {
		found = append(found, one.Addr())
		if one.ID() == controller {
			controllers++
		}
	}
	slices.Sort(found)
	return errors.Join(equal("addresses", slices.Sorted(slices.Values(addresses)), found), equal("controllers", 1, controllers))
}

func logDirs() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := sendSamples(topic, 6); err != nil {
		return err
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return err
	}
	described, err := admin.DescribeLogDirs([]int32{brokers[0].ID()})
	if err != nil {
		return err
	}
	for _, directory := range described[brokers[0].ID()] {
		for _, each := range directory.Topics {
			if each.Topic == topic && each.Partitions[0].Size > 0 {
				return nil
			}
		}
	}
	return errors.New("no bytes")
}

func recordTooLarge() error {
	topic, err := newTopic(1, "max.message.bytes", "1000")
	if err != nil {
		return err
	}
	large := send([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.ByteEncoder(bytes.Repeat([]byte("x"), 2000))}}, nil)
	small := send([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.ByteEncoder("x")}}, nil)
	var many sarama.ProducerErrors
	if !errors.As(large, &many) || !errors.Is(many[0].Err, sarama.ErrMessageSizeTooLarge) {
		return fmt.Errorf("a record that is too large: %v", large)
	}
	return small
}

func autoCreation() error {
	record := &sarama.ProducerMessage{Topic: fresh("auto"), Value: sarama.StringEncoder("first")}
	err := send([]*sarama.ProducerMessage{record}, func(config *sarama.Config) { config.Metadata.AllowAutoTopicCreation = true })
	return errors.Join(err, equal("offset", 0, record.Offset))
}

func offsetOutOfRange() error {
	topic, err := newTopic(1)
	if err != nil {
		return err
	}
	if err := sendSamples(topic, 3); err != nil {
		return err
	}
	_, err = read(topic, 1000, 1, nil)
	return refused(sarama.ErrOffsetOutOfRange, err)
}
