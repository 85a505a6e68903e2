// Package shop keeps a shop's orders in a topic: the program under test. Nothing in it knows kavka.
package shop

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const Topic = "orders"

type Shop struct{ brokers []string }

func New(brokers ...string) *Shop { return &Shop{brokers} }

// Client writes to the shop's topic, and has it made on first use.
func (s *Shop) Client() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.DefaultProduceTopic(Topic), kgo.AllowAutoTopicCreation())
}

// Place returns when the order is stored: acks=all and idempotence are franz-go's defaults.
func (s *Shop) Place(ctx context.Context, client *kgo.Client, order string) error {
	return client.ProduceSync(ctx, kgo.StringRecord(order)).FirstErr()
}

// Orders returns all orders of the topic's one partition, the oldest first.
func (s *Shop) Orders(ctx context.Context) ([]string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, Topic)
	if err != nil {
		return nil, err
	}
	end, ok := ends.Lookup(Topic, 0)
	if !ok {
		return nil, ends.Error()
	}
	var orders []string
	for int64(len(orders)) < end.Offset {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) { orders = append(orders, string(record.Value)) })
	}
	return orders, nil
}
