package bench

import (
	"fmt"
	"html"
	"strings"
)

// svg is a picture in the making: shapes at pixels, on white.
type svg struct {
	body          strings.Builder
	width, height float64
}

func (s *svg) box(x, y, width, height float64, colour, hint string) {
	fmt.Fprintf(&s.body, `<rect x="%.1f" y="%.1f" width="%.2f" height="%.1f" fill="%s"><title>%s</title></rect>`+"\n",
		x, y, max(width, 0.6), height, colour, html.EscapeString(hint))
}

func (s *svg) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(&s.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, colour)
}

// text is put at a point: anchor is start, middle or end.
func (s *svg) text(x, y float64, anchor, text string) {
	fmt.Fprintf(&s.body, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(text))
}

func (s *svg) path(points [][2]float64, colour string) {
	s.body.WriteString(`<polyline fill="none" stroke="` + colour + `" stroke-width="2" points="`)
	for _, p := range points {
		fmt.Fprintf(&s.body, "%.1f,%.1f ", p[0], p[1])
	}
	s.body.WriteString("\"/>\n")
	for _, p := range points {
		fmt.Fprintf(&s.body, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", p[0], p[1], colour)
	}
}

func (s *svg) bytes() []byte {
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" fill="#222">
<rect width="%.0f" height="%.0f" fill="#fff"/>
%s</svg>
`, s.width, s.height, s.width, s.height, s.body.String())
}
