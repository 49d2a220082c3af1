#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds the emulator: Bochs 3.0 from Debian's source tarball with the patches and the
# instrumentation library of this folder. Touches only the cache folder. Prints one line on stdout,
# the folder that holds `bochs`.
#
# The cache has two levels: the configured tree, keyed by tarball, patches, flags and instrument.h
# (which Bochs compiles in everywhere), and the linked program, keyed by that and the library's
# files, experiments' with them (part.h).
set -euo pipefail

tarball=bochs_3.0+dfsg.orig.tar.xz
tarball_sha256=78f6c73d4a6472d5130a87ab9dc306d02c7c71ed8e25b3a8ef642e2a7acd282b
pool_path=pool/main/b/bochs/bochs_3.0%2bdfsg.orig.tar.xz
library=instrument/pmuvisor
configure_flags=(
    --enable-cpu-level=6 --enable-x86-64 --enable-vmx=2 --enable-smp --enable-pci
    --enable-avx --enable-evex --enable-protection-keys --enable-cet
    --enable-all-optimizations --disable-perfmon --enable-configurable-msrs
    "--enable-instrumentation=$library"
    --with-nogui --disable-docbook --disable-plugins
)
# Position-independent code would only be slower.
compiler_flags="-O2 -fno-strict-aliasing -fno-pie"
linker_flags=-no-pie

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PMUVISOR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pmuvisor}

die() {
    echo "testbed/build.sh: $*" >&2
    exit 1
}

is_tarball() {
    [ -f "$1" ] && echo "$tarball_sha256  $1" | sha256sum --check --status
}

# Puts the tarball at $1: from $DISTFILES, else from the Debian mirrors that apt is configured with.
fetch_tarball() {
    local target=$1 given uri
    if [ -n "${DISTFILES:-}" ]; then
        given=$DISTFILES/$tarball
        if [ -f "$given" ]; then
            is_tarball "$given" ||
                die "$given: wrong SHA-256, wanted $tarball_sha256:" \
                    "replace the file or unset DISTFILES"
            cp "$given" "$target.part"
            mv "$target.part" "$target"
            return
        fi
    fi
    [ -x /usr/lib/apt/apt-helper ] ||
        die "$tarball not found: set DISTFILES to a folder that has it (apt's helper is not here)"
    while read -r uri; do
        echo "testbed: fetching $tarball with apt" >&2
        if /usr/lib/apt/apt-helper download-file "${uri%/}/$pool_path" "$target.part" \
            "SHA256:$tarball_sha256" > /dev/null 2>&1; then
            mv "$target.part" "$target"
            return
        fi
    done < <(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' \
        'Component: main' | sort -u)
    rm -f "$target.part"
    die "$tarball: no configured Debian mirror has it; set DISTFILES to a folder that has it"
}

# Unpacks, patches and configures Bochs in $1.
prepare_tree() {
    local tree=$1 work=$1.part patch
    mkdir -p "$cache/distfiles"
    is_tarball "$cache/distfiles/$tarball" || fetch_tarball "$cache/distfiles/$tarball"
    rm -rf "$work" "$tree"
    mkdir -p "$work/source" "$work/build"
    tar --extract --file "$cache/distfiles/$tarball" --directory "$work/source" --strip-components=1
    for patch in "$here"/patches/*.patch; do
        # Without fuzz: a patch that only seems to fit is an error.
        patch --strip=1 --fuzz=0 --batch --directory="$work/source" --input="$patch" \
            >> "$work/patch.log" 2>&1 ||
            die "$(basename "$patch") does not apply: see $work/patch.log"
    done
    mkdir -p "$work/source/$library"
    cp "$here"/instrument/instrument.h "$here"/instrument/Makefile.in "$work/source/$library/"
    mv "$work" "$tree"
    echo "testbed: configuring Bochs 3.0" >&2
    (cd "$tree/build" && CFLAGS=$compiler_flags CXXFLAGS=$compiler_flags LDFLAGS=$linker_flags \
        ../source/configure "${configure_flags[@]}") > "$tree/configure.log" 2>&1 ||
        die "configure of Bochs failed: see $tree/configure.log"
    touch "$tree/configured"
}

# Makes bochs in the tree $1; after each tenth of the files a line says how far that is.
compile() {
    local build=$1/build log=$1/build.log total files=0 line
    total=$(make --dry-run --directory "$build" bochs 2> /dev/null | grep -c ' -c ') || true
    # Not awk: mawk reads a pipe in blocks, so its lines come late.
    make --directory "$build" --jobs "$(nproc)" bochs 2>&1 | tee "$log" | while read -r line; do
        [[ $line == *' -c '* ]] || continue
        files=$((files + 1))
        [ "$total" -le 20 ] || [ $((files % (total / 10))) -ne 0 ] ||
            echo "testbed: $files of $total files of Bochs are compiled" >&2
    done
}

for tool in g++ patch; do
    command -v "$tool" > /dev/null ||
        die "$tool not found: install the packages that testbed/deps.sh lists"
done
tree_key=$( (
    echo "$tarball_sha256 ${configure_flags[*]} $compiler_flags $linker_flags"
    g++ --version | sed -n 1p
    cat "$here/instrument/instrument.h" "$here/instrument/Makefile.in"
    cat "$here"/patches/*.patch
) | sha256sum | cut -c 1-16)
# What experiments have of the library.
shopt -s nullglob
added=("$here"/../experiments/*/emulator/*.{cc,h})
rows=("$here"/../experiments/*/emulator/parts.inc)
shopt -u nullglob
key=$( (
    echo "$tree_key"
    cat /dev/null "${added[@]}" "${rows[@]}"
    cd "$here/instrument" && sha256sum -- *.cc *.h
) | sha256sum | cut -c 1-16)
tree=$cache/bochs-tree-$tree_key
out=$cache/bochs-$key

if [ ! -x "$out/bochs" ]; then
    mkdir -p "$cache"
    exec 9> "$cache/bochs.lock"
    flock 9
    if [ ! -x "$out/bochs" ]; then
        [ -e "$tree/configured" ] || prepare_tree "$tree"
        # instrument.h stays: a newer copy of the same text would rebuild everything.
        find "$tree/source/$library" -type f -name '*.[ch]*' ! -name instrument.h -delete
        find "$here/instrument" -maxdepth 1 -name '*.[ch]*' ! -name instrument.h \
            -exec cp {} "$tree/source/$library/" ';'
        [ ${#added[@]} -eq 0 ] || cp "${added[@]}" "$tree/source/$library/"
        cat /dev/null "${rows[@]}" > "$tree/source/$library/parts.inc"
        rm -f "$tree/build/$library"/*.o
        echo "testbed: building Bochs 3.0 with the instrumentation library" >&2
        # The archive's rule in Bochs looks at no source file.
        rm -f "$tree/build/$library/libinstrument.a" "$tree/build/bochs"
        compile "$tree" ||
            die "build of Bochs failed:" \
                "$(grep -m 1 -E ' error: |undefined reference' "$tree/build.log" || true)" \
                "(see $tree/build.log)"
        rm -rf "$out"
        mkdir -p "$out.part"
        cp "$tree/build/bochs" "$out.part/bochs"
        strip "$out.part/bochs"
        mv "$out.part" "$out"
    fi
    flock --unlock 9
fi
echo "$out"
