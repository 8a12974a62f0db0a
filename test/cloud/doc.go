// Package cloud gives tests an OpenStack control plane: the image of
// containers/images/controller, in an isolated machine of test/machine, with an engine of
// its own, so that a test can restart the node's engine. make controller-image and make
// guest build what it needs.
//
//	c := cloud.New(t)
//	// a node file with rabbit_host: 127.0.0.1, auth_url: c.AuthURL, and the
//	// secrets c.Secret("rabbit"), c.Secret("nova"), …; kollet bootstrap
//	api := c.Client(t)
//	api.AwaitCompute(host)
//	id := api.CreateServer("a", host, cloud.Provider)
//	api.AwaitActive(id)
//	api.Stop(id)
//
// The scripts beside it are make cloud and make cloud-down, which run the same image on
// this machine.
package cloud
