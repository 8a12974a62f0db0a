#!/bin/sh
# Packages must not start services during their installation: 101 means forbidden.
exit 101
