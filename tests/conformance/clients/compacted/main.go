// Two consumers from Go on a compacted topic that learn nothing from an answer without records: kafka-go's Reader, and
// sarama as it was up to 1.45.1.
//
// checks HOST:PORT TOPIC COUNT LAST reads partition 0 from its start up to the record at offset LAST, of COUNT in all, and
// prints a line of JSON for each client: {"check", "ok", "detail"}.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

const timeout = 20 * time.Second

func main() {
	addresses, topic := strings.Split(os.Args[1], ","), os.Args[2]
	count, last := number(os.Args[3]), number(os.Args[4])
	for _, client := range []struct {
		name string
		read func(context.Context, []string, string, func(int64) bool) error
	}{{"kafka-go", withKafkaGo}, {"sarama 1.45.1", withSarama}} {
		found := int64(0)
		limit, cancel := context.WithTimeout(context.Background(), timeout)
		err := client.read(limit, addresses, topic, func(offset int64) bool {
			found++
			return offset < last
		})
		cancel()
		detail := ""
		if err != nil || found != count {
			detail = fmt.Sprintf("%d of %d records read: %v", found, count, err)
		}
		line, _ := json.Marshal(map[string]any{"check": client.name, "ok": detail == "", "detail": detail})
		fmt.Println(string(line))
	}
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return value
}

// withKafkaGo gives the offset of each record to next until that wants no more.
func withKafkaGo(limit context.Context, addresses []string, topic string, next func(int64) bool) error {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: addresses, Topic: topic, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	for {
		record, err := reader.ReadMessage(limit)
		if err != nil {
			return err
		}
		if !next(record.Offset) {
			return nil
		}
	}
}

func withSarama(limit context.Context, addresses []string, topic string, next func(int64) bool) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	consumer, err := sarama.NewConsumer(addresses, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	defer partition.Close()
	for {
		select {
		case record := <-partition.Messages():
			if !next(record.Offset) {
				return nil
			}
		case <-limit.Done():
			return limit.Err()
		}
	}
}
