#!/bin/sh
# Runs at the end of the build of the images' common layer. Removes programs and libraries that Python, Java and Spark's scripts do not use.
# Debian's own list of packages stays, for scanners.
set -eu
rm -rf /usr/lib/apt /usr/lib/dpkg /etc/apt /var/lib/apt /var/cache/apt /var/cache/debconf /var/lib/dpkg/info
# Only scripts of packages use Perl; Python and Java have their own character sets.
rm -rf /usr/lib/*-linux-gnu/perl-base /usr/share/perl* /usr/lib/*-linux-gnu/gconv
rm -rf /usr/lib/python3*/pydoc_data /usr/lib/python3*/test /usr/lib/python3*/lib2to3
rm -rf /var/log/* /var/cache/ldconfig /usr/share/doc /usr/share/man /usr/share/info
rm -rf /usr/share/bash-completion /usr/share/common-licenses /usr/share/keyrings /usr/share/gcc /usr/lib/systemd /usr/libexec
rm -rf /usr/share/zoneinfo/right /usr/share/zoneinfo/posix
# Modules of Python for terminals, other databases and NIS; each needs libraries that nothing else uses.
rm -f /usr/lib/python3*/lib-dynload/_curses* /usr/lib/python3*/lib-dynload/readline* /usr/lib/python3*/lib-dynload/_dbm* \
    /usr/lib/python3*/lib-dynload/_gdbm* /usr/lib/python3*/lib-dynload/nis* /usr/lib/python3*/lib-dynload/_sqlite3* \
    /usr/lib/python3*/lib-dynload/ossaudiodev*
# Python's tests, and character sets of East Asia other than Unicode; modules in Python that a compiled one replaces; a drawing program.
rm -f /usr/lib/python3*/lib-dynload/_test* /usr/lib/python3*/lib-dynload/_xx* /usr/lib/python3*/lib-dynload/_codecs_* \
    /usr/lib/python3*/_pydecimal.pyc /usr/lib/python3*/_pyio.pyc /usr/lib/python3*/turtle.pyc
# The rest needs no further program: the shell, its usual commands, Python, tini, and tar for `kubectl cp`.
kept=' basename bash cat chmod chown comm cp cut date df dirname du echo env expr false find getent grep gzip head hostname id kill ldd ln ls mkdir mktemp
 mv nice nohup od openssl printf ps pwd python3 python3.11 readlink realpath rm rmdir sed seq sh dash sleep sort stat tail tar tee test timeout tini touch tr true
 uname uniq wc which whoami xargs '
for program in /usr/bin/* /usr/sbin/*; do
    case "$kept" in
    *[[:space:]]"${program##*/}"[[:space:]]*) ;;
    *) rm -f "$program" ;;
    esac
done
# Libraries: those of the programs and of Python's modules, and those that Java and its natives need without a program of this layer.
lib=$(dirname "$(echo /usr/lib/*-linux-gnu/libc.so.6)")
needed=$(
    for file in /usr/bin/* /usr/lib/python3*/lib-dynload/*.so "$lib"/libnss_* "$lib"/libstdc++.so.6 "$lib"/libcrypt.so.1 "$lib"/librt.so.1 "$lib"/libz.so.1; do
        echo "$(readlink -f "$file")"
        ldd "$file" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | while read -r found; do readlink -f "$found"; done
    done | sort -u
)
for file in "$lib"/*.so "$lib"/*.so.*; do
    real=$(readlink -f "$file")
    case "$needed" in
    *"$real"*) ;;
    *) case "${file##*/}" in ld-linux* | libpthread* | libdl.* | libresolv* | libutil* | libanl*) ;; *) echo "$file" ;; esac ;;
    esac
done >/tmp/unused
while read -r file; do rm -f "$file"; done </tmp/unused
rm -rf /tmp/unused "$lib"/security "$lib"/krb5 "$lib"/e2fsprogs
