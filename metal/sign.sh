#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Signs an EFI program for Secure Boot, by sbsign: UEFI, "Secure Boot and Driver Signing". For a key
# with a passphrase sbsign asks on the terminal, for each program.
# Usage: sign.sh KEY CERT                     says in one line what stands against it
#        sign.sh KEY CERT PROGRAM OUT [OLD]   OUT is PROGRAM with one signature more
# A signature has its time in it. So where OLD is PROGRAM with this key's signature, OUT is OLD:
# what is installed twice stays the same.
set -euo pipefail

fail() {
    echo "sign.sh: $*" >&2
    exit 1
}

key=${1:-} cert=${2:-} program=${3:-} out=${4:-} old=${5:-}
both="wanted both: SIGN_KEY=FILE SIGN_CERT=FILE"
[ -n "$key" ] || fail "found a certificate, '$cert', and no key; $both, or neither of them"
[ -n "$cert" ] || fail "found a key, '$key', and no certificate; $both, or neither of them"
make_one='to make one see docs/metal.md, "Secure Boot"'
[ -f "$key" ] && [ -r "$key" ] || fail "SIGN_KEY: cannot read '$key'; name a key's file; $make_one"
[ -f "$cert" ] && [ -r "$cert" ] ||
    fail "SIGN_CERT: cannot read '$cert'; name the certificate of '$key'; $make_one"
grep -q '^-----BEGIN .*PRIVATE KEY-----' "$key" ||
    fail "SIGN_KEY: '$key' has no private key in PEM (a line BEGIN PRIVATE KEY); $make_one"
grep -q '^-----BEGIN CERTIFICATE-----' "$cert" ||
    fail "SIGN_CERT: '$cert' has no certificate in PEM (a line BEGIN CERTIFICATE); of one in DER:" \
        "openssl x509 -inform DER -in '$cert' -out FILE"
for tool in sbsign sbverify sbattach; do
    command -v $tool > /dev/null || fail "$tool is missing; run: testbed/deps.sh sign"
done
[ -n "$program" ] || exit 0
[ -n "$out" ] || fail "usage: sign.sh KEY CERT [PROGRAM OUT [OLD]]"

is_signed() {
    sbverify --cert "$cert" "$1" > /dev/null 2>&1
}

if [ -r "$old" ] && is_signed "$old"; then
    cp "$old" "$out"
    if sbattach --remove "$out" > /dev/null 2>&1 && cmp -s "$out" "$program"; then
        cp "$old" "$out"
        exit 0
    fi
fi
rm -f "$out"
# sbsign asks on the terminal itself; what it says besides is of use only where it fails.
if ! said=$(sbsign --key "$key" --cert "$cert" --output "$out" "$program" 2>&1) ||
    ! is_signed "$out"; then
    rm -f "$out"
    reason=$(sed -n "/^Can't \|^error in /p" <<< "$said" | sed -n 1p)
    fail "sbsign did not sign '$program': ${reason:-$(tail -n 1 <<< "$said")}; wanted an RSA key" \
        "and its own certificate: SIGN_KEY is '$key', SIGN_CERT '$cert'"
fi
