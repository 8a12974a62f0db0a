package containerd

import (
	"context"
	"path"

	"github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Watch tells a function of each call that an engine makes, as "Containers Get".
func (e *Engine) Watch(call func(string)) error {
	short := func(method string) {
		call(path.Ext(path.Dir(method))[1:] + " " + path.Base(method))
	}
	watched, err := client.New(e.address, client.WithDefaultNamespace(e.namespace), client.WithExtraDialOpts([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			short(method)
			return invoke(ctx, method, request, reply, conn, opts...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			short(method)
			return stream(ctx, desc, conn, method, opts...)
		}),
	}))
	if err != nil {
		return err
	}
	_ = e.client.Close()
	e.client = watched
	return nil
}
