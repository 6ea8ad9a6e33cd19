// Scenarios of the official Go client of RocketMQ 5:
// play ENDPOINTS PREFIX [ACCESS_KEY SECRET_KEY].  Every event is a line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const limit = 150 * time.Second

var (
	endpoints, prefix string
	account           = &credentials.SessionCredentials{}
	telling           sync.Mutex
)

func main() {
	endpoints, prefix = os.Args[1], os.Args[2]
	if len(os.Args) > 4 {
		account.AccessKey, account.AccessSecret = os.Args[3], os.Args[4]
	}
	rmq.ResetLogger()
	var all sync.WaitGroup
	for scenario, play := range map[string]func(string) error{
		"normal": normal, "sql": sql, "simple": simple, "fifo": fifo, "delay": delay, "tx": tx, "dead": dead,
	} {
		all.Add(1)
		go func() {
			defer all.Done()
			var failure any
			if err := play(scenario); err != nil {
				failure = err.Error()
			}
			tell(scenario, "end", map[string]any{"failure": failure})
		}()
	}
	all.Wait()
}

func tell(scenario, event string, more map[string]any) {
	line := map[string]any{"scenario": scenario, "event": event, "at": float64(time.Now().UnixMilli()) / 1000}
	for key, value := range more {
		line[key] = value
	}
	written, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	telling.Lock()
	defer telling.Unlock()
	fmt.Println(string(written))
}

func text(given *string) string {
	if given == nil {
		return ""
	}
	return *given
}

func tellMessage(scenario, event string, got *rmq.MessageView) {
	keys := append([]string{}, got.GetKeys()...)
	sort.Strings(keys)
	tell(scenario, event, map[string]any{
		"body": string(got.GetBody()), "tag": text(got.GetTag()), "keys": keys,
		"properties": got.GetProperties(), "attempt": got.GetDeliveryAttempt(),
		"group": text(got.GetMessageGroup()),
	})
}

func name(scenario string) string { return prefix + "-" + scenario }

func config(group string) *rmq.Config {
	return &rmq.Config{Endpoint: endpoints, ConsumerGroup: group, Credentials: account}
}

func message(scenario, body string) *rmq.Message {
	return &rmq.Message{Topic: name(scenario), Body: []byte(body)}
}

func withProducer(scenario string, work func(rmq.Producer) error, options ...rmq.ProducerOption) error {
	producer, err := rmq.NewProducer(config(""), append(options, rmq.WithTopics(name(scenario)))...)
	if err != nil {
		return err
	}
	if err := producer.Start(); err != nil {
		return err
	}
	defer producer.GracefulStop()
	return work(producer)
}

func send(producer rmq.Producer, made *rmq.Message) (string, error) {
	receipts, err := producer.Send(context.Background(), made)
	if err != nil {
		return "", err
	}
	return receipts[0].MessageID, nil
}

// pushed starts a push consumer; the channel is closed when enough came.
func pushed(scenario string, count int32, filter *rmq.FilterExpression, fails bool) (rmq.PushConsumer, chan bool, error) {
	done, left := make(chan bool), atomic.Int32{}
	left.Store(count)
	consumer, err := rmq.NewPushConsumer(config(name(scenario)),
		rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{name(scenario): filter}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{
			Consume: func(got *rmq.MessageView) rmq.ConsumerResult {
				tellMessage(scenario, "got", got)
				if left.Add(-1) == 0 {
					close(done)
				}
				if fails {
					return rmq.FAILURE
				}
				return rmq.SUCCESS
			},
		}))
	if err != nil {
		return nil, nil, err
	}
	return consumer, done, consumer.Start()
}

func await(scenario string, done chan bool) {
	select {
	case <-done:
	case <-time.After(limit):
		tell(scenario, "late", nil)
	}
}

func consume(scenario string, count int32, filter *rmq.FilterExpression) error {
	consumer, done, err := pushed(scenario, count, filter, false)
	if err != nil {
		return err
	}
	await(scenario, done)
	time.Sleep(time.Second) // acknowledgements are sent in the background
	return consumer.GracefulStop()
}

func sendColours(scenario string) error {
	return withProducer(scenario, func(producer rmq.Producer) error {
		for number := 0; number < 10; number++ {
			made := message(scenario, fmt.Sprintf("m%d", number))
			made.SetTag(string("ab"[number%2]))
			made.SetKeys(fmt.Sprintf("k%d", number))
			made.AddProperty("color", "blue")
			made.AddProperty("number", fmt.Sprint(number))
			id, err := send(producer, made)
			if err != nil {
				return err
			}
			tell(scenario, "sent", map[string]any{"id": id})
		}
		return nil
	})
}

func normal(scenario string) error {
	if err := sendColours(scenario); err != nil {
		return err
	}
	return consume(scenario, 5, rmq.NewFilterExpression("a || c"))
}

func sql(scenario string) error {
	if err := sendColours(scenario); err != nil {
		return err
	}
	wanted := rmq.NewFilterExpressionWithType("number < 3 AND color = 'blue'", rmq.SQL92)
	return consume(scenario, 3, wanted)
}

func simpleConsumer(topic, group string) (rmq.SimpleConsumer, error) {
	consumer, err := rmq.NewSimpleConsumer(config(group),
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}))
	if err != nil {
		return nil, err
	}
	return consumer, consumer.Start()
}

func simple(scenario string) error {
	err := withProducer(scenario, func(producer rmq.Producer) error {
		for number := 0; number < 4; number++ {
			if _, err := send(producer, message(scenario, fmt.Sprintf("s%d", number))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	consumer, err := simpleConsumer(name(scenario), name(scenario))
	if err != nil {
		return err
	}
	defer consumer.GracefulStop()
	changed, settled := false, 0
	for end := time.Now().Add(limit); settled < 4 && time.Now().Before(end); {
		found, _ := consumer.Receive(context.Background(), 2, 20*time.Second) // an error where nothing came
		for _, got := range found {
			tellMessage(scenario, "got", got)
			if changed {
				if err := consumer.Ack(context.Background(), got); err != nil {
					return err
				}
				settled++
			} else if err := consumer.ChangeInvisibleDuration(got, time.Second); err != nil {
				return err
			}
			changed = true
		}
	}
	return nil
}

func fifo(scenario string) error {
	err := withProducer(scenario, func(producer rmq.Producer) error {
		for number := 0; number < 10; number++ {
			made := message(scenario, fmt.Sprintf("f%d", number))
			made.SetMessageGroup("one")
			if _, err := send(producer, made); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return consume(scenario, 10, rmq.SUB_ALL)
}

func delay(scenario string) error {
	err := withProducer(scenario, func(producer rmq.Producer) error {
		now := time.Now()
		made := message(scenario, fmt.Sprintf("%.3f", float64(now.UnixMilli())/1000))
		made.SetDelayTimestamp(now.Add(4 * time.Second))
		_, err := send(producer, made)
		return err
	})
	if err != nil {
		return err
	}
	return consume(scenario, 1, rmq.SUB_ALL)
}

func tx(scenario string) error {
	checker := &rmq.TransactionChecker{Check: func(got *rmq.MessageView) rmq.TransactionResolution {
		tellMessage(scenario, "check", got)
		if string(got.GetBody()) == "rollback" { // a broker may ask before it has heard
			return rmq.ROLLBACK
		}
		return rmq.COMMIT
	}}
	return withProducer(scenario, func(producer rmq.Producer) error {
		for _, body := range []string{"commit", "rollback", "forgotten"} {
			transaction := producer.BeginTransaction()
			_, err := producer.SendWithTransaction(context.Background(), message(scenario, body), transaction)
			if err == nil && body == "commit" {
				err = transaction.Commit()
			} else if err == nil && body == "rollback" {
				err = transaction.RollBack()
			}
			if err != nil {
				return err
			}
		}
		return consume(scenario, 2, rmq.SUB_ALL)
	}, rmq.WithTransactionChecker(checker))
}

func dead(scenario string) error {
	err := withProducer(scenario, func(producer rmq.Producer) error {
		_, err := send(producer, message(scenario, "poison"))
		return err
	})
	if err != nil {
		return err
	}
	consumer, done, err := pushed(scenario, 2, rmq.SUB_ALL, true)
	if err != nil {
		return err
	}
	defer consumer.GracefulStop()
	await(scenario, done)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		letters, err := simpleConsumer("%DLQ%"+name(scenario), name("burial"))
		if err != nil {
			continue // the topic of dead letters is not there yet
		}
		for time.Now().Before(end) {
			found, _ := letters.Receive(context.Background(), 1, 20*time.Second)
			for _, got := range found {
				tellMessage(scenario, "buried", got)
				letters.Ack(context.Background(), got)
				return letters.GracefulStop()
			}
		}
	}
	return nil
}
