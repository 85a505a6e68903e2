package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	shareRecords  = 60
	groupResource = kmsg.ConfigResourceTypeGroupConfig
)

func shareChecks() []check {
	return []check{
		{"share group done once", shareDoneOnce},
		{"share group implicit", shareImplicit},
		{"share group two deliveries", shareTwoDeliveries},
		{"share group connection lost", shareConnectionLost},
		{"share group record limit", shareRecordLimit},
		{"share group renewed", shareRenewed},
		{"share group administered", shareAdministered},
	}
}

// A topic with numbered records, and a group that begins at the first of them.
func queue(ctx context.Context, partitions int32, count int, settings ...string) (string, string, error) {
	topic, err := newTopic(ctx, partitions)
	if err != nil {
		return "", "", err
	}
	var records []*kgo.Record
	for number := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(number) % partitions, Value: fmt.Append(nil, number)})
	}
	if err := send(ctx, records, kgo.RecordPartitioner(kgo.ManualPartitioner())); err != nil {
		return "", "", err
	}
	client, err := newClient()
	if err != nil {
		return "", "", err
	}
	defer client.Close()
	group := fresh("workers")
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = groupResource, group
	settings = append(settings, "share.auto.offset.reset", "earliest")
	for i := 0; i < len(settings); i += 2 {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = settings[i], &settings[i+1]
		resource.Configs = append(resource.Configs, config)
	}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Resources[0].ErrorCode)
	}
	// Where a group begins is read when its first member comes; a broker may hear of the setting a moment later.
	time.Sleep(500 * time.Millisecond)
	return topic, group, err
}

// A member, whose acknowledgements must all count.
type worker struct {
	*kgo.Client
	mutex sync.Mutex
	wrong []error
}

func newWorker(topic, group string, options ...kgo.Opt) (*worker, error) {
	one := &worker{}
	client, err := newClient(append(options, kgo.ShareGroup(group), kgo.ConsumeTopics(topic),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			one.mutex.Lock()
			defer one.mutex.Unlock()
			one.wrong = append(one.wrong, results.Error())
		}))...)
	one.Client = client
	return one, err
}

// What the next poll brings, within a second.
func (one *worker) next(ctx context.Context, most int) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fetches := one.PollRecords(ctx, most)
	var failures []error
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			failures = append(failures, err)
		}
	})
	return fetches.Records(), errors.Join(failures...)
}

// All that comes until there are so many records.
func (one *worker) some(ctx context.Context, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < count && ctx.Err() == nil {
		records, err := one.next(ctx, -1)
		if err != nil {
			return found, err
		}
		found = append(found, records...)
	}
	return found, equal("records", count, len(found))
}

func (one *worker) settled(ctx context.Context) error {
	err := one.FlushAcks(ctx)
	one.mutex.Lock()
	defer one.mutex.Unlock()
	return errors.Join(append(one.wrong, err)...)
}

// Two members: some records are given back once, one is rejected, nothing that was accepted comes again.
func shareDoneOnce(ctx context.Context) error {
	topic, group, err := queue(ctx, 3, shareRecords)
	if err != nil {
		return err
	}
	var workers []*worker
	for range 2 {
		one, err := newWorker(topic, group)
		if err != nil {
			return err
		}
		defer one.Close()
		workers = append(workers, one)
	}
	delivered, accepted := map[string]int{}, map[string]int{}
	for len(accepted) < shareRecords-1 && ctx.Err() == nil {
		for _, one := range workers {
			records, err := one.next(ctx, -1)
			if err != nil {
				return err
			}
			for _, record := range records {
				value := string(record.Value)
				delivered[value]++
				switch {
				case value == "7":
					record.Ack(kgo.AckReject)
				case value[len(value)-1] == '0' && delivered[value] == 1:
					record.Ack(kgo.AckRelease)
				default:
					accepted[value]++
					record.Ack(kgo.AckAccept)
				}
				if err := equal("deliveries of "+value, delivered[value], record.DeliveryCount()); err != nil {
					return err
				}
			}
			if err := one.settled(ctx); err != nil {
				return err
			}
		}
	}
	for value, count := range accepted {
		if count != 1 {
			return fmt.Errorf("%s was accepted %d times", value, count)
		}
	}
	return errors.Join(equal("accepted", shareRecords-1, len(accepted)), equal("deliveries of 7", 1, delivered["7"]),
		equal("deliveries of 10", 2, delivered["10"]))
}

// What was polled is accepted by the next poll; the next member gets none of it.
func shareImplicit(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, 10)
	if err != nil {
		return err
	}
	first, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	if _, err := first.some(ctx, 10); err != nil {
		return err
	}
	if _, err := first.next(ctx, -1); err != nil {
		return err
	}
	err = first.settled(ctx)
	first.Close()
	if err != nil {
		return err
	}
	second, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	defer second.Close()
	return second.hasNext(ctx, topic)
}

// A record that is sent now is the next one that the worker has: nothing is left of those before.
func (one *worker) hasNext(ctx context.Context, topic string) error {
	if err := send(ctx, []*kgo.Record{{Topic: topic, Value: []byte("last")}}); err != nil {
		return err
	}
	records, err := one.some(ctx, 1)
	if err != nil {
		return err
	}
	return equal("the next record", "last", string(records[0].Value))
}

// At the limit of deliveries a record is given to nobody any more.
func shareTwoDeliveries(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, 1, "share.delivery.count.limit", "2")
	if err != nil {
		return err
	}
	one, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	defer one.Close()
	for count := range 2 {
		records, err := one.some(ctx, 1)
		if err != nil {
			return err
		}
		if err := equal("deliveries", count+1, records[0].DeliveryCount()); err != nil {
			return err
		}
		records[0].Ack(kgo.AckRelease)
		if err := one.settled(ctx); err != nil {
			return err
		}
	}
	return one.hasNext(ctx, topic)
}

// A member that loses its connections, and is not heard of again: another gets what it held, at once.
func shareConnectionLost(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, 10)
	if err != nil {
		return err
	}
	var mutex sync.Mutex
	var open []net.Conn
	lost := false
	dial := func(ctx context.Context, network, host string) (net.Conn, error) {
		mutex.Lock()
		defer mutex.Unlock()
		if lost {
			return nil, net.ErrClosed
		}
		connection, err := (&net.Dialer{}).DialContext(ctx, network, host)
		if err == nil {
			open = append(open, connection)
		}
		return connection, err
	}
	first, err := newWorker(topic, group, kgo.Dialer(dial))
	if err != nil {
		return err
	}
	if _, err := first.some(ctx, 10); err != nil {
		return err
	}
	mutex.Lock()
	lost = true
	for _, connection := range open {
		connection.Close()
	}
	mutex.Unlock()
	began := time.Now()
	second, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	defer second.Close()
	records, err := second.some(ctx, 10)
	if err != nil {
		return err
	}
	if took := time.Since(began); took > 15*time.Second { // A lock lasts 30 s.
		return fmt.Errorf("records that were held came after %v", took)
	}
	return equal("deliveries", 2, records[0].DeliveryCount())
}

// Never more records at once than asked for, although all are in one batch.
func shareRecordLimit(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, shareRecords)
	if err != nil {
		return err
	}
	one, err := newWorker(topic, group, kgo.ShareMaxRecords(7), kgo.ShareMaxRecordsStrict())
	if err != nil {
		return err
	}
	defer one.Close()
	for found := 0; found < shareRecords; {
		records, err := one.next(ctx, -1)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if len(records) > 7 {
			return fmt.Errorf("%d records at once", len(records))
		}
		found += len(records)
	}
	return one.settled(ctx)
}

// A lock is renewed, and the record accepted then.
func shareRenewed(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, 1)
	if err != nil {
		return err
	}
	one, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	defer one.Close()
	records, err := one.some(ctx, 1)
	if err != nil {
		return err
	}
	for range 3 {
		records[0].Ack(kgo.AckRenew)
		if err := one.settled(ctx); err != nil {
			return err
		}
	}
	records[0].Ack(kgo.AckAccept)
	return one.settled(ctx)
}

// Where a group is, and how many records it has not done.
func shareAdministered(ctx context.Context) error {
	topic, group, err := queue(ctx, 1, 10)
	if err != nil {
		return err
	}
	one, err := newWorker(topic, group)
	if err != nil {
		return err
	}
	records, err := one.some(ctx, 10)
	if err != nil {
		return err
	}
	for number, record := range records {
		if number < 4 {
			record.Ack(kgo.AckAccept)
		} else {
			record.Ack(kgo.AckRelease)
		}
	}
	err = one.settled(ctx)
	one.Close()
	if err != nil {
		return err
	}
	described, err := admin.DescribeShareGroupOffsets(ctx, group)
	if err != nil {
		return err
	}
	at, is := described[group].Offsets.Lookup(topic, 0)
	return errors.Join(described[group].Err, at.Err, equal("is there", true, is), equal("start offset", 4, at.StartOffset),
		equal("lag", 6, at.Lag))
}
