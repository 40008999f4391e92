// What tests have kafka-go do: `client read BOOTSTRAP TOPIC`. It reads partition 0 from its
// beginning, and says of each record "read VALUE", until its standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/segmentio/kafka-go"
)

func main() {
	if len(os.Args) != 4 || os.Args[1] != "read" {
		log.Fatalf("nothing is called %v", os.Args[1:])
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     strings.Split(os.Args[2], ","),
		Topic:       os.Args[3],
		StartOffset: kafka.FirstOffset,
		MaxBytes:    10e6,
	})
	over := inputEnds()
	for {
		record, err := reader.ReadMessage(over)
		if over.Err() != nil {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("read %s\n", record.Value)
	}
}

// Done when nobody can write to this program any more: it is told to stop, or its test is gone.
func inputEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}
