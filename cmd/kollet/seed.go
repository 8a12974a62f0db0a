package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/seed"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) seed() *cobra.Command {
	var change seed.Change
	var to outputFlags
	var dir bool
	format := choice{value: string(seed.NoCloud), of: []string{string(seed.NoCloud), string(seed.ConfigDrive)}}
	cmd := &cobra.Command{
		Use:   "seed [DESCRIPTION] --to PATH",
		Short: "Create a cloud-init seed image (NoCloud or config drive)",
		Long: `Seed creates the data that cloud-init reads if there is no metadata service: an ISO
image with the label cidata (NoCloud) or config-2 (OpenStack's config drive, version
2), or a directory with the same files. Attach the image to the machine as a CD or
disk before its first boot.

DESCRIPTION is a YAML file. Only hostname is required:

    hostname: cmp1.example.com
    instance_id: cmp1-1            # cloud-init runs once per instance; default: iid-HOSTNAME
    ssh_keys: [ssh-ed25519 AAAA… operator]
    root_password_hash: $6$…
    timezone: Europe/Berlin
    dns: {servers: [10.0.0.2, "fd00::2"], search: [example.com]}
    interfaces:                    # default: DHCP on the first one
      - name: ens3
        mac: 52:54:00:12:34:56     # the interface with this address is renamed
        addresses: [10.0.0.21/24, "fd00::21/64"]
        gateways: [10.0.0.1, "fd00::1"]
        routes: [{to: 10.1.0.0/16, via: 10.0.0.254}]
        mtu: 9000
      - {name: ens4, dhcp4: true, dhcp6: true}
    files:
      - {path: /etc/motd, content: "a compute node\n", owner: root, perm: "0644"}
      - {path: /etc/site.pem, source: site.pem}
    user_data: cmp1.user-data      # from kollet userdata; relative to this file
    vendor_data: site.vendor-data

The same input produces the same bytes. Only you can read the result.` +
			exitHelp(map[int]string{exitDone: "success", exitFailed: "failed; nothing was written"}, exitDone, exitFailed, exitInput),
		Example: `  kollet seed cmp1.yaml --to cmp1.iso
  kollet seed --hostname cmp1 --ssh-key ~/.ssh/id_ed25519.pub --user-data cmp1.user-data \
      --format config-drive --to cmp1.iso`,
		Args: takes(0, 1),
		RunE: a.offline(func(_ context.Context, _ *agent.Agent, args []string) (view.View, error) {
			if to.path == "" {
				return nil, usageError{fmt.Errorf("--to is required: the path of the result"), "seed"}
			}
			if err := to.checkFree(); err != nil {
				return nil, err
			}
			description := ""
			if len(args) > 0 {
				description = args[0]
			}
			s, err := readSeed(description, change, seed.Format(format.value))
			if err != nil {
				return nil, node.BadInput{Err: err}
			}
			size := 0
			if dir {
				err = s.WriteDir(to.path)
			} else {
				size, err = s.WriteImage(to.path)
			}
			if err != nil {
				return nil, err
			}
			return view.NewSeed(s, to.path, size), nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&change.Hostname, "hostname", "", "`NAME` of the machine")
	f.StringVar(&change.InstanceID, "instance-id", "", "`ID` of this installation; cloud-init runs once per ID")
	f.StringArrayVar(&change.SSHKeys, "ssh-key", nil, "`FILE` of SSH public keys to authorize; can be repeated")
	f.StringVar(&change.UserData, "user-data", "", "`FILE` with user-data from kollet userdata")
	f.Var(&format, "format", "format of the seed")
	f.BoolVar(&dir, "directory", false, "write a directory instead of an ISO image")
	to.add(cmd, "`PATH` to write")
	complete(cmd, "format", format.of)
	return cmd
}

func readSeed(description string, change seed.Change, format seed.Format) (*seed.Seed, error) {
	m, err := seed.Read(description, change)
	if err != nil {
		return nil, err
	}
	return seed.Make(m, format)
}
