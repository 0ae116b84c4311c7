#!/usr/bin/env bash
# Installs opgate from an archive of its release: the action's first step. Reads OPGATE_VERSION, OPGATE_URL and OPGATE_SHA256,
# and the variables of the runner. Also runs outside of GitHub: the program is then in ./opgate-bin.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 2; }
version=${OPGATE_VERSION:?}
url=${OPGATE_URL:-}
url=${url%/}
[[ -n $url ]] || fail "set the input url: the address of the directory with the archives of opgate $version"
runner=${RUNNER_OS:-$(uname -s)}-${RUNNER_ARCH:-$(uname -m)}
case $runner in
    Linux-X64 | Linux-x86_64) triple=x86_64-unknown-linux-musl ;;
    Linux-ARM64 | Linux-aarch64) triple=aarch64-unknown-linux-musl ;;
    macOS-X64 | Darwin-x86_64) triple=x86_64-apple-darwin ;;
    macOS-ARM64 | Darwin-arm64) triple=aarch64-apple-darwin ;;
    Windows-X64) triple=x86_64-pc-windows-gnu ;;
    *) fail "there is no opgate for this runner: $runner" ;;
esac
triple=${OPGATE_TRIPLE:-$triple}
extension=tar.gz
[[ $triple != *windows* ]] || extension=zip
name=opgate-$version-$triple

directory=${RUNNER_TEMP:-$PWD}/opgate-bin
mkdir -p "$directory"
cd "$directory"
download() {
    curl --fail --silent --show-error --location --retry 3 --output "$1" "$url/$1" ||
        fail "$url/$1 cannot be downloaded: check the inputs version and url"
}
download "$name.$extension"
sum=${OPGATE_SHA256:-}
if [[ -z $sum ]]; then
    download SHA256SUMS
    sums=$(<SHA256SUMS)
    sum=$(awk -v name="$name.$extension" '$2 == name { print $1 }' <<<"$sums")
fi
found=$({ sha256sum "$name.$extension" 2>/dev/null || shasum -a 256 "$name.$extension"; } | cut -d ' ' -f 1)
# PowerShell prints upper case.
sum=$(tr '[:upper:]' '[:lower:]' <<<"$sum")
if [[ -z $sum || $sum != "$found" ]]; then
    fail "$url/$name.$extension has the SHA-256 $found instead of ${sum:-one in SHA256SUMS}"
fi
if [[ $extension == zip ]]; then
    unzip -q -o "$name.zip"
else
    tar -xzf "$name.tar.gz"
fi
program=$directory/$name/opgate
[[ $extension != zip ]] || program+=.exe
"$program" version
echo "$directory/$name" >>"${GITHUB_PATH:-/dev/null}"
echo "path=$program" >>"${GITHUB_OUTPUT:-/dev/null}"
