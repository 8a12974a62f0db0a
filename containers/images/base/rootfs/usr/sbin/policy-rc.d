#!/bin/sh
# No package may start its service while it is installed: 101 means forbidden.
exit 101
