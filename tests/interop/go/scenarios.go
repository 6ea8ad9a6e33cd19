package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var scenarios = map[string]func(*stage) error{
	"send":        send,
	"tags":        tags,
	"sql":         sql,
	"retry":       retry,
	"orderly":     orderly,
	"broadcast":   broadcast,
	"transaction": transaction,
}

func facts(message *primitive.MessageExt) fields {
	return fields{
		"topic":      message.Topic,
		"body":       string(message.Body),
		"tags":       message.GetTags(),
		"keys":       message.GetKeys(),
		"queue":      message.Queue.QueueId,
		"offset":     message.QueueOffset,
		"times":      message.ReconsumeTimes,
		"msgId":      message.MsgId,
		"storedAt":   message.StoreTimestamp,
		"bornAt":     message.BornTimestamp,
		"properties": message.GetProperties(),
	}
}

// hearing tells every message under the event's name and takes it.
func hearing(s *stage, event string, heard *counter) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			s.tell(event, facts(message))
			heard.add(string(message.Body))
		}
		return consumer.ConsumeSuccess, nil
	}
}

func message(topic, tag, body string) *primitive.Message {
	made := primitive.NewMessage(topic, []byte(body))
	made.WithTag(tag)
	return made
}

func send(s *stage) error {
	ctx := context.Background()
	topic, err := s.topic(2)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	full := func(body string) *primitive.Message {
		made := message(topic, "paid", body)
		made.WithKeys([]string{"k1", "k2"})
		made.WithProperty("b", "grüße 消息 🚀")
		return made
	}
	told := func(event string, sent *primitive.SendResult) {
		s.tell(event, fields{
			"status": int(sent.Status), "msgId": sent.MsgID, "offset": sent.QueueOffset,
			"queue": sent.MessageQueue.QueueId, "offsetMsgId": sent.OffsetMsgID,
		})
	}
	for event, batch := range map[string][]*primitive.Message{
		"sync":   {full("sync")},
		"batch":  {full("batch 0"), full("batch 1"), full("batch 2")},
		"packed": {full(strings.Repeat("packed ", 3000))},
	} {
		sent, err := p.SendSync(ctx, batch...)
		if err != nil {
			return err
		}
		told(event, sent)
	}
	answered := make(chan error)
	err = p.SendAsync(ctx, func(_ context.Context, sent *primitive.SendResult, err error) {
		if err == nil {
			told("async", sent)
		}
		answered <- err
	}, full("async"))
	if err != nil {
		return err
	}
	if err := <-answered; err != nil {
		return err
	}
	if err := p.SendOneWay(ctx, full("oneway")); err != nil {
		return err
	}
	delayed := full("delayed")
	delayed.WithDelayTimeLevel(2)
	if _, err := p.SendSync(ctx, delayed); err != nil {
		return err
	}
	heard := &counter{}
	c, err := s.listen(topic, consumer.MessageSelector{}, hearing(s, "seen", heard))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	return heard.await(8)
}

// "Aa" and "BB" have the same hash: the broker lets both through, the client only one.
func tags(s *stage) error {
	return filtered(s, consumer.MessageSelector{Type: consumer.TAG, Expression: "Aa || c"}, 4,
		func(topic string, n int) []*primitive.Message {
			made := []*primitive.Message{}
			for _, tag := range []string{"Aa", "BB", "c", "d"} {
				made = append(made, message(topic, tag, fmt.Sprint(tag, n)))
			}
			return made
		})
}

func sql(s *stage) error {
	wanted := consumer.MessageSelector{Type: consumer.SQL92, Expression: "price > 10.5 AND TAGS = 'a'"}
	return filtered(s, wanted, 2,
		func(topic string, n int) []*primitive.Message {
			made := []*primitive.Message{}
			for _, tag := range []string{"a", "b"} {
				for _, price := range []int{10, 11} {
					one := message(topic, tag, fmt.Sprint(tag, " ", price, " ", n))
					one.WithProperty("price", fmt.Sprint(price))
					made = append(made, one)
				}
			}
			return made
		})
}

// filtered sends two rounds of messages, the second while a consumer waits for so many of both.
func filtered(
	s *stage, wanted consumer.MessageSelector, count int,
	round func(topic string, n int) []*primitive.Message,
) error {
	topic, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	heard := &counter{}
	for n := 0; n < 2; n++ {
		for _, one := range round(topic, n) {
			if _, err := p.SendSync(context.Background(), one); err != nil {
				return err
			}
		}
		if n == 0 {
			c, err := s.listen(topic, wanted, hearing(s, "seen", heard))
			if err != nil {
				return err
			}
			defer c.Shutdown()
			if err := heard.await(count / 2); err != nil {
				return err
			}
		}
	}
	return heard.await(count)
}

// One message fails once, another one each time until it is a dead letter.
func retry(s *stage) error {
	topic, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	healed, dead := &counter{}, &counter{}
	fails := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		one := messages[0]
		s.tell("seen", facts(one))
		if string(one.Body) == "heals" && one.ReconsumeTimes > 0 {
			healed.add("heals")
			return consumer.ConsumeSuccess, nil
		}
		return consumer.ConsumeRetryLater, nil
	}
	c, err := s.listen(topic, consumer.MessageSelector{}, fails, consumer.WithMaxReconsumeTimes(1))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	for _, body := range []string{"heals", "never heals"} {
		if _, err := p.SendSync(context.Background(), message(topic, "a", body)); err != nil {
			return err
		}
	}
	if err := healed.await(1); err != nil {
		return err
	}
	letters, err := s.listen(
		"%DLQ%"+s.named("g"), consumer.MessageSelector{}, hearing(s, "dead", dead),
		consumer.WithGroupName(s.named("dead")),
	)
	if err != nil {
		return err
	}
	defer letters.Shutdown()
	return dead.await(1)
}

func orderly(s *stage) error {
	topic, err := s.topic(2)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	for n := 0; n < 10; n++ {
		one := message(topic, "a", fmt.Sprint("m", n))
		one.WithShardingKey(fmt.Sprint("key", n%2))
		if _, err := p.SendSync(context.Background(), one); err != nil {
			return err
		}
	}
	heard := &counter{}
	c, err := s.listen(
		topic, consumer.MessageSelector{}, hearing(s, "seen", heard), consumer.WithConsumerOrder(true),
	)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	return heard.await(10)
}

func broadcast(s *stage) error {
	topic, err := s.topic(2)
	if err != nil {
		return err
	}
	p, err := s.producer()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	for n := 0; n < 4; n++ {
		if _, err := p.SendSync(context.Background(), message(topic, "a", fmt.Sprint("m", n))); err != nil {
			return err
		}
	}
	heard := &counter{}
	for member := 0; member < 2; member++ {
		hear := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				s.tell(fmt.Sprint("seen by ", member), facts(one))
				heard.add(fmt.Sprint(member, string(one.Body)))
			}
			return consumer.ConsumeSuccess, nil
		}
		c, err := s.listen(
			topic, consumer.MessageSelector{}, hear, consumer.WithConsumerModel(consumer.BroadCasting),
		)
		if err != nil {
			return err
		}
		defer c.Shutdown()
	}
	return heard.await(8)
}

// outcomes answers each half message as its body says, and tells the checks.
type outcomes struct {
	s *stage
}

func (o *outcomes) ExecuteLocalTransaction(half *primitive.Message) primitive.LocalTransactionState {
	switch string(half.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (o *outcomes) CheckLocalTransaction(half *primitive.MessageExt) primitive.LocalTransactionState {
	o.s.tell("check", facts(half))
	return primitive.CommitMessageState
}

func transaction(s *stage) error {
	topic, err := s.topic(1)
	if err != nil {
		return err
	}
	p, err := rocketmq.NewTransactionProducer(&outcomes{s: s}, s.producerOptions()...)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for _, body := range []string{"commit", "rollback", "unknown"} {
		sent, err := p.SendMessageInTransaction(context.Background(), message(topic, "a", body))
		if err != nil {
			return err
		}
		s.tell("sent", fields{"body": body, "status": int(sent.Status), "state": int(sent.State)})
	}
	heard := &counter{}
	c, err := s.listen(topic, consumer.MessageSelector{}, hearing(s, "seen", heard))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	return heard.await(2)
}
