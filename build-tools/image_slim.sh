#!/bin/sh
# Runs in the build of the images' common layer, at its end: takes away what installs packages, and what neither Python nor Java reads.
# Debian's own list of packages stays, for scanners.
set -eu
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/lib/apt /usr/lib/dpkg /etc/apt /var/lib/apt /var/cache/apt /var/cache/debconf /var/lib/dpkg/info /usr/lib/*-linux-gnu/libapt-*
# Scripts of packages are the only ones that are in Perl; Python and Java bring character sets of their own.
rm -rf /usr/bin/perl* /usr/lib/*-linux-gnu/perl-base /usr/share/perl* /usr/lib/*-linux-gnu/gconv
rm -rf /usr/lib/python3*/pydoc_data /usr/lib/python3*/test /usr/lib/python3*/lib2to3
rm -rf /var/log/* /var/cache/ldconfig /usr/share/doc /usr/share/man /usr/share/info
