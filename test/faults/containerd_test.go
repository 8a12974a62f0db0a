package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// containerdProxy is a proxy before containerd's socket.
type containerdProxy struct {
	injection
	engine *grpc.ClientConn

	mutex sync.Mutex
	conns map[net.Conn]bool
}

// newContainerdProxy listens at a path. It passes messages on without decoding them.
func newContainerdProxy(t testing.TB, engine, path string) proxy {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+engine, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(undecoded{}), grpc.MaxCallRecvMsgSize(64<<20)))
	check(t, err)
	p := &containerdProxy{engine: conn, conns: map[net.Conn]bool{}}
	listener, err := net.Listen("unix", path)
	check(t, err)
	server := grpc.NewServer(grpc.ForceServerCodec(undecoded{}), grpc.UnknownServiceHandler(p.handle), grpc.MaxRecvMsgSize(64<<20))
	go func() {
		if err := server.Serve(tracking{listener, p}); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		server.Stop()
		_ = conn.Close()
	})
	return p
}

// undecoded is a codec for messages as they are.
type undecoded struct{}

func (undecoded) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (undecoded) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func (undecoded) Name() string { return "proto" }

// tracking remembers the clients' connections, so that they can be cut.
type tracking struct {
	net.Listener
	p *containerdProxy
}

func (l tracking) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.p.mutex.Lock()
		l.p.conns[conn] = true
		l.p.mutex.Unlock()
	}
	return conn, err
}

// cut closes the connections of all clients, of which there is one: kollet.
func (p *containerdProxy) cut() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
	return status.Error(codes.Unavailable, "cut off")
}

func (p *containerdProxy) handle(_ any, client grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(client)
	fault, trigger := p.current()
	if trigger == nil || !trigger.fires(path.Base(path.Dir(method))+" "+path.Base(method)) {
		return p.forward(client, method, nil)
	}
	switch fault {
	case fails:
		return status.Error(codes.Internal, "injected: the engine failed")
	case delayed:
		pause(client.Context(), trigger.delay())
		return p.forward(client, method, nil)
	case cutBefore:
		return p.cut()
	case cutAfter:
		return p.forward(client, method, p.cut)
	case late:
		return p.forward(client, method, func() error {
			pause(client.Context(), trigger.delay())
			return nil
		})
	case never:
		<-client.Context().Done()
		return client.Context().Err()
	}
	return fmt.Errorf("unknown fault %q", fault)
}

// forward passes a call on. before is what happens before the first answer is passed back.
func (p *containerdProxy) forward(client grpc.ServerStream, method string, before func() error) error {
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	sent, _ := metadata.FromIncomingContext(ctx)
	ctx = metadata.NewOutgoingContext(ctx, withoutPseudo(sent))
	engine, err := p.engine.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go func() {
		if err := relay(client.RecvMsg, engine.SendMsg, nil); errors.Is(err, io.EOF) {
			_ = engine.CloseSend()
		} else {
			cancel()
		}
	}()
	err = relay(engine.RecvMsg, client.SendMsg, before)
	if errors.Is(err, io.EOF) {
		client.SetTrailer(engine.Trailer())
		return nil
	}
	return err
}

// relay passes messages on until there are no more.
func relay(receive, send func(any) error, before func() error) error {
	for {
		var message []byte
		err := receive(&message)
		if before != nil {
			if e := before(); e != nil {
				return e
			}
			before = nil
		}
		if err != nil {
			return err
		}
		if err := send(&message); err != nil {
			return err
		}
	}
}

// withoutPseudo returns a call's metadata without what gRPC adds itself.
func withoutPseudo(all metadata.MD) metadata.MD {
	kept := metadata.MD{}
	for key, values := range all {
		if !strings.HasPrefix(key, ":") && key != "content-type" && key != "user-agent" {
			kept[key] = values
		}
	}
	return kept
}
