// Uses the Go client against the name server and broker given as arguments.
//
// Usage: interop NAMESRV BROKER PREFIX
//
//	interop account NAMESRV BROKER KEY SECRET VERB NAME...
//
// Every name used begins with the prefix.  All scenarios run at once, because the client waits 20 s
// here and there.  What was seen is printed as lines of JSON; the key "scenario" says who saw it.
// A scenario that fails prints a line with the key "failure", and the program ends with 1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const deadline = 100 * time.Second

type fields map[string]any

// stage is what one scenario works with: names and clients of its own, and its voice.
type stage struct {
	name, broker, prefix string
	namesrv              primitive.NsResolver
	clients              int
}

var voice sync.Mutex

func (s *stage) tell(event string, facts fields) {
	voice.Lock()
	defer voice.Unlock()
	facts["scenario"] = s.name
	facts["event"] = event
	line, _ := json.Marshal(facts)
	fmt.Println(string(line))
}

// instance is a name that no other client has: clients with the same one share connections.
func (s *stage) instance() string {
	s.clients++
	return fmt.Sprintf("%s%s%d", s.prefix, s.name, s.clients)
}

func (s *stage) named(name string) string {
	return s.prefix + s.name + "_" + name
}

func (s *stage) topic(queues int) (string, error) {
	made, err := admin.NewAdmin(admin.WithResolver(s.namesrv))
	if err != nil {
		return "", err
	}
	defer made.Close()
	topic := s.named("t")
	err = made.CreateTopic(
		context.Background(),
		admin.WithTopicCreate(topic),
		admin.WithBrokerAddrCreate(s.broker),
		admin.WithReadQueueNums(queues),
		admin.WithWriteQueueNums(queues),
	)
	return topic, err
}

func (s *stage) producerOptions() []producer.Option {
	return []producer.Option{
		producer.WithNsResolver(s.namesrv),
		producer.WithGroupName(s.named("p")),
		producer.WithInstanceName(s.instance()),
		producer.WithSendMsgTimeout(10 * time.Second),
	}
}

func (s *stage) producer() (rocketmq.Producer, error) {
	made, err := rocketmq.NewProducer(s.producerOptions()...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

type listener = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

func (s *stage) listen(
	topic string, wanted consumer.MessageSelector, heard listener, more ...consumer.Option,
) (rocketmq.PushConsumer, error) {
	options := append([]consumer.Option{
		consumer.WithNsResolver(s.namesrv),
		consumer.WithGroupName(s.named("g")),
		consumer.WithInstance(s.instance()),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	if err := made.Subscribe(topic, wanted, heard); err != nil {
		return nil, err
	}
	return made, made.Start()
}

// counter lets a scenario wait for so many different bodies.
type counter struct {
	lock   sync.Mutex
	bodies map[string]bool
}

func (c *counter) add(body string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.bodies == nil {
		c.bodies = map[string]bool{}
	}
	c.bodies[body] = true
}

func (c *counter) await(count int) error {
	for end := time.Now().Add(deadline - 10*time.Second); time.Now().Before(end); {
		c.lock.Lock()
		got := len(c.bodies)
		c.lock.Unlock()
		if got >= count {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("waited too long for %d: %v", count, c.bodies)
}

func main() {
	rlog.SetLogLevel("error")
	if os.Args[1] == "account" {
		account(os.Args[2:])
		return
	}
	namesrv := primitive.NewPassthroughResolver([]string{os.Args[1]})
	ended := make(chan bool)
	for name, play := range scenarios {
		s := &stage{name: name, broker: os.Args[2], prefix: os.Args[3], namesrv: namesrv}
		go func() {
			err := play(s)
			if err != nil {
				s.tell("end", fields{"failure": err.Error()})
			}
			ended <- err == nil
		}()
	}
	late := time.After(deadline)
	code := 0
	for range scenarios {
		select {
		case fine := <-ended:
			if !fine {
				code = 1
			}
		case <-late:
			fmt.Println(`{"scenario": "", "event": "end", "failure": "deadline"}`)
			os.Exit(1)
		}
	}
	os.Exit(code)
}
