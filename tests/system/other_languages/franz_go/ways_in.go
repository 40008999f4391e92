package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const patience = 30 * time.Second

type way struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	Mechanism   string `json:"mechanism"`
	User        string `json:"user"`
	Secret      string `json:"secret"`
	Topic       string `json:"topic"`
	Now         int64  `json:"now"`
}

type outcome struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset"`
	Read   string `json:"read"`
	Error  string `json:"error"`
}

// Comes to a broker in several ways, all at once. What ways there are is read from standard input,
// as JSON; for each, one message is written and read back, and a line of JSON says what came of it.
func waysIn() {
	var ways []way
	if err := json.NewDecoder(os.Stdin).Decode(&ways); err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	outcomes := make([]outcome, len(ways))
	for i := range ways {
		running.Add(1)
		go func(i int) {
			defer running.Done()
			outcomes[i] = try(ways[i])
		}(i)
	}
	running.Wait()
	out := json.NewEncoder(os.Stdout)
	for _, each := range outcomes {
		if err := out.Encode(each); err != nil {
			log.Fatal(err)
		}
	}
}

func try(w way) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := outcome{Name: w.Name}
	var err error
	if o.Offset, err = writeOne(ctx, w); err == nil {
		o.Read, err = readOne(ctx, w, o.Offset)
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func writeOne(ctx context.Context, w way) (int64, error) {
	client, err := connect(w)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	// Otherwise it goes on trying to log in for as long as its patience lasts.
	if err := client.Ping(ctx); err != nil {
		return 0, err
	}
	record := &kgo.Record{Topic: w.Topic, Value: []byte(w.Name)}
	written, err := client.ProduceSync(ctx, record).First()
	if err != nil {
		return 0, err
	}
	return written.Offset, nil
}

func readOne(ctx context.Context, w way, offset int64) (string, error) {
	from := map[string]map[int32]kgo.Offset{w.Topic: {0: kgo.NewOffset().At(offset)}}
	client, err := connect(w, kgo.ConsumePartitions(from))
	if err != nil {
		return "", err
	}
	defer client.Close()
	fetches := client.PollFetches(ctx)
	if errs := fetches.Errors(); len(errs) > 0 {
		return "", errs[0].Err
	}
	return string(fetches.Records()[0].Value), nil
}

func connect(w way, more ...kgo.Opt) (*kgo.Client, error) {
	options := append([]kgo.Opt{kgo.SeedBrokers(w.Address)}, more...)
	if w.CA != "" {
		config, err := locks(w)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if w.Mechanism != "" {
		login, err := login(w)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(login))
	}
	return kgo.NewClient(options...)
}

func locks(w way) (*tls.Config, error) {
	authority, err := os.ReadFile(w.CA)
	if err != nil {
		return nil, err
	}
	believed := x509.NewCertPool()
	if !believed.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", w.CA)
	}
	// Go asks the kernel what time it is. Tests may have moved the clock, for all who ask libc.
	now := func() time.Time { return time.Unix(w.Now, 0) }
	config := &tls.Config{RootCAs: believed, Time: now}
	if w.Certificate != "" {
		shown, err := tls.LoadX509KeyPair(w.Certificate, w.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{shown}
	}
	return config, nil
}

func login(w way) (sasl.Mechanism, error) {
	switch w.Mechanism {
	case "PLAIN":
		return plain.Auth{User: w.User, Pass: w.Secret}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: w.User, Pass: w.Secret}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: w.User, Pass: w.Secret}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: w.Secret}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("no mechanism is called %s", w.Mechanism)
}
