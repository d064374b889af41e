#include "src/data/download/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <span>

#include "carillon/core/error.h"
#include "src/core/text.h"
#include "src/data/convert/source_file.h"

namespace carillon {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "OpenSSL has no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL's SHA-256 failed");
}

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_.get(), sum.data(), &size) == 1, "OpenSSL's SHA-256 failed");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_contents_bytes = std::uint64_t{1} << 30;  // size limit of decompressed contents

std::string sha256_of(SourceFile& file) {
  Sha256 sum;
  std::vector<std::byte> piece(std::size_t{1} << 20);
  std::uint64_t total = 0;
  for (std::size_t bytes = 0; (bytes = file.read(piece)) > 0;) {
    total += bytes;
    if (total > max_contents_bytes) {
      fail(ExitCode::data, "{}: has more than {} decompressed bytes", file.path(), max_contents_bytes);
    }
    sum.update(std::span(piece).first(bytes));
  }
  return sum.digits();
}

/// Returns the checksums of the archive's files, by file name without folders.
std::map<std::string, std::string, std::less<>> sha256_of_members(const std::string& path) {
  std::map<std::string, std::string, std::less<>> sums;
  ArchiveReader archive(path, max_contents_bytes);
  for (ArchiveMember member; archive.next(member);) {
    if (!member.is_file) continue;
    Sha256 sum;
    const std::vector<std::uint8_t> content = archive.content();
    sum.update(std::as_bytes(std::span(content)));
    sums[fs::path(member.name).filename().string()] = sum.digits();
  }
  return sums;
}

/// Returns the path of the file in the folder, under one of the names that the converter reads. Returns an empty path
/// if the folder does not contain the file.
fs::path find_file(const fs::path& folder, const PublishedFile& file) {
  for (const std::string_view name : {file.other_name, file.name}) {
    std::error_code error;
    if (!name.empty() && fs::exists(folder / name, error)) return folder / name;
  }
  return {};
}

std::string names_of(const PublishedSet& set) {
  std::string names;
  for (const PublishedFile& file : set.files) names += fmt::format("{}{}", names.empty() ? "" : ", ", file.name);
  return names;
}

}  // namespace

// The checksums were computed from verified copies of the decompressed files. The Ruby port of torchvision lists the
// same values for CIFAR-10.
const PublishedSet& published_mnist() {
  static const PublishedSet set{
      .address = "https://storage.googleapis.com/cvdf-datasets/mnist/",
      .files = {{.name = "train-images-idx3-ubyte.gz",
                 .other_name = "train-images-idx3-ubyte",
                 .contents = {{"", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"}}},
                {.name = "train-labels-idx1-ubyte.gz",
                 .other_name = "train-labels-idx1-ubyte",
                 .contents = {{"", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"}}},
                {.name = "t10k-images-idx3-ubyte.gz",
                 .other_name = "t10k-images-idx3-ubyte",
                 .contents = {{"", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"}}},
                {.name = "t10k-labels-idx1-ubyte.gz",
                 .other_name = "t10k-labels-idx1-ubyte",
                 .contents = {{"", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}}}}};
  return set;
}

const PublishedSet& published_cifar10() {
  static const PublishedSet set{
      .address = "https://www.cs.toronto.edu/~kriz/",
      .files = {
          {.name = "cifar-10-binary.tar.gz",
           .contents = {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
                        {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
                        {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
                        {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
                        {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
                        {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}}}};
  return set;
}

void check_published_contents(const fs::path& path, const PublishedFile& file) {
  const auto compare = [&](const PublishedContents& expected, const std::string& found) {
    if (found == expected.sha256) return;
    fail(ExitCode::data, "{}: is not the published file: the SHA-256 of its contents{}{} is {}, not {}", path.string(),
         expected.member.empty() ? "" : " ", expected.member, found, expected.sha256);
  };
  if (file.contents.front().member.empty()) {
    SourceFile source(path.string());
    compare(file.contents.front(), sha256_of(source));
    return;
  }
  const auto sums = sha256_of_members(path.string());
  for (const PublishedContents& expected : file.contents) {
    const auto found = sums.find(expected.member);
    if (found == sums.end()) fail(ExitCode::data, "{}: contains no file {}", path.string(), expected.member);
    compare(expected, found->second);
  }
}

void download_set(const PublishedSet& set, const fs::path& folder, const SetDownload& settings) {
  std::string base = settings.mirror.empty() ? std::string(set.address) : settings.mirror;
  if (!base.ends_with('/')) base += '/';
  for (const PublishedFile& file : set.files) {
    if (const fs::path present = find_file(folder, file); !present.empty()) {
      try {
        check_published_contents(present, file);
      } catch (const Error& error) {
        fail(error.code(), "{}; remove it to download it again", error.what());
      }
      settings.note(fmt::format("{}: present, its contents are right", present.string()));
      continue;
    }
    const std::string name(file.name);
    const fs::path path = folder / name;
    DownloadSettings transfer = settings.transfer;
    transfer.progress = [&](std::uint64_t done, std::uint64_t total) { settings.progress(name, done, total); };
    try {
      download(
          base + name, path, [&](const fs::path& part) { check_published_contents(part, file); }, transfer);
    } catch (const Error& error) {
      fail(error.code(), "{}. Without --download: fetch {} from {} in another way, and name the path with --input",
           error.what(), names_of(set), set.address);
    }
    settings.note(fmt::format("{}: downloaded, {} bytes; its contents are right", path.string(), fs::file_size(path)));
  }
}

}  // namespace carillon
