package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The options of kgo that a secured cluster asks for, as kavka.testing tells them.
type login struct {
	SeedBrokers   []string
	DialTLSConfig struct{ RootCAs, Certificate, Key string }
	SASL          *struct{ Mechanism, User, Pass string }
}

func (l login) options() ([]kgo.Opt, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(l.DialTLSConfig.RootCAs)) {
		return nil, errors.New("RootCAs has no certificate")
	}
	config := &tls.Config{RootCAs: roots}
	if l.DialTLSConfig.Key != "" {
		own, err := tls.X509KeyPair([]byte(l.DialTLSConfig.Certificate), []byte(l.DialTLSConfig.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	options := []kgo.Opt{kgo.SeedBrokers(l.SeedBrokers...), kgo.DialTLSConfig(config)}
	if l.SASL != nil {
		auth := scram.Auth{User: l.SASL.User, Pass: l.SASL.Pass}
		mechanism := auth.AsSha512Mechanism()
		if l.SASL.Mechanism == "SCRAM-SHA-256" {
			mechanism = auth.AsSha256Mechanism()
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

// secured writes two records over the end of a session, reads them, and administers; the login comes on standard input.
func secured(topic, pause string) error {
	var found login
	if err := json.NewDecoder(os.Stdin).Decode(&found); err != nil {
		return err
	}
	options, err := found.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("franz-go"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	wait, err := time.ParseDuration(pause)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	for _, value := range []string{"one", "two"} {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			return err
		}
		time.Sleep(wait)
	}
	for read := 0; read < 2; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			read++
		})
	}
	topics, err := kadm.NewClient(client).ListTopics(ctx)
	if err != nil {
		return err
	}
	fmt.Println(len(topics.Names()))
	return nil
}
