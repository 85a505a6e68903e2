package shop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestOrdersComeBackInTheOrderInWhichTheyWerePlaced(t *testing.T) {
	cluster := StartKavka(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	place(ctx, t, New(cluster.Brokers...), []string{"tea", "milk"}, func(int) {})
}

func TestNoOrderIsLostOrDoubledWhenTheLeaderDies(t *testing.T) {
	cluster := StartKavka(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	shop := New(cluster.Brokers...)
	client, err := shop.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var orders []string
	for number := range 10 {
		orders = append(orders, fmt.Sprintf("order %d", number))
	}
	place(ctx, t, shop, orders, func(number int) {
		if number != 5 {
			return
		}
		topics, err := kadm.NewClient(client).ListTopics(ctx, Topic)
		if err != nil {
			t.Fatal(err)
		}
		cluster.Kill(topics[Topic].Partitions[0].Leader)
	})
}

// place writes the orders, calls before each of them, and wants to read the same.
func place(ctx context.Context, t *testing.T, shop *Shop, orders []string, before func(number int)) {
	t.Helper()
	client, err := shop.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for number, order := range orders {
		before(number)
		if err := shop.Place(ctx, client, order); err != nil {
			t.Fatal(err)
		}
	}
	read, err := shop.Orders(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(read, orders) {
		t.Fatalf("placed %v, read %v", orders, read)
	}
}
