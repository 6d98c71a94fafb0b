#!/bin/sh
# Runs at the end of the build of the images' common layer. Removes package managers, and files that Python and Java do not read.
# Debian's own list of packages stays, for scanners.
set -eu
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/lib/apt /usr/lib/dpkg /etc/apt /var/lib/apt /var/cache/apt /var/cache/debconf /var/lib/dpkg/info /usr/lib/*-linux-gnu/libapt-*
# Only scripts of packages use Perl; Python and Java have their own character sets.
rm -rf /usr/bin/perl* /usr/lib/*-linux-gnu/perl-base /usr/share/perl* /usr/lib/*-linux-gnu/gconv
rm -rf /usr/lib/python3*/pydoc_data /usr/lib/python3*/test /usr/lib/python3*/lib2to3
rm -rf /var/log/* /var/cache/ldconfig /usr/share/doc /usr/share/man /usr/share/info
