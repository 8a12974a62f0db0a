package main

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Offsets in an Ethernet frame with an IPv4 packet without options and a UDP datagram.
const (
	ipAt          = 14
	udpAt         = ipAt + 20
	sourcePortAt  = udpAt
	destinationAt = udpAt + 2
	payloadAt     = udpAt + 8
	probeLength   = payloadAt + 4
)

// station returns the number of a hardware address that no port has. The switch has seen none
// of them before, so it has no flow for the first frame to it.
func station(n uint32) net.HardwareAddr {
	return binary.BigEndian.AppendUint32(net.HardwareAddr{0x02, 0xaa}, n)
}

// probe returns a UDP datagram to a new station, from a new port, with its number.
func probe(n uint32, from net.HardwareAddr, source, destination netip.Addr) []byte {
	frame := make([]byte, probeLength)
	copy(frame, station(n))
	copy(frame[6:], from)
	binary.BigEndian.PutUint16(frame[12:], 0x0800)
	ip := frame[ipAt:]
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[2:], probeLength-ipAt)
	ip[8], ip[9] = 64, 17
	copy(ip[12:], source.AsSlice())
	copy(ip[16:], destination.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip[:20]))
	binary.BigEndian.PutUint16(frame[sourcePortAt:], uint16(20000+n%40000))
	binary.BigEndian.PutUint16(frame[destinationAt:], probePort)
	binary.BigEndian.PutUint16(frame[udpAt+4:], probeLength-udpAt)
	binary.BigEndian.PutUint32(frame[payloadAt:], n)
	return frame
}

// turn makes a probe the answer to it. The sum of the addresses stays the same, and so does the
// checksum.
func turn(frame []byte, own net.HardwareAddr) {
	copy(frame, frame[6:12])
	copy(frame[6:], own)
	swap(frame[ipAt+12:], 4)
	swap(frame[udpAt:], 2)
}

// swap swaps two neighbours of a length.
func swap(b []byte, length int) {
	for i := range length {
		b[i], b[length+i] = b[length+i], b[i]
	}
}

// checksum is that of the header of an IPv4 packet.
func checksum(header []byte) uint16 {
	var sum uint32
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// request returns an ARP request.
func request(from net.HardwareAddr, source, target netip.Addr) []byte {
	frame := append(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, from...)
	frame = append(frame, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1)
	frame = append(append(frame, from...), source.AsSlice()...)
	return append(append(frame, 0, 0, 0, 0, 0, 0), target.AsSlice()...)
}

// isReply reports whether a frame is an ARP reply of an address.
func isReply(frame []byte, of netip.Addr) bool {
	return len(frame) >= 42 && binary.BigEndian.Uint16(frame[20:]) == 2 && netip.AddrFrom4([4]byte(frame[28:32])) == of
}
