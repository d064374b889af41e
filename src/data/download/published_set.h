// Published set: the files of a dataset on its web server, with the checksums of their contents.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/handle.h"
#include "src/data/download/download.h"

namespace carillon {

/// The checksum SHA-256 (FIPS 180-4) of bytes that arrive in pieces, computed by OpenSSL's libcrypto.
class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> bytes);
  /// The checksum as 64 hexadecimal digits. Call it once, after the last `update`.
  std::string digits();

 private:
  Handle<EVP_MD_CTX*, EVP_MD_CTX_free> context_;
};

/// The checksum of the decompressed file, or of one member of an archive.
struct PublishedContents {
  std::string_view member;  ///< file name in the archive; empty: the file is no archive
  std::string_view sha256;  ///< 64 hexadecimal digits
};

struct PublishedFile {
  std::string_view name;             ///< at the address and in the folder
  std::string_view other_name = {};  ///< a name in the folder that the converter prefers; empty: none
  std::vector<PublishedContents> contents;
};

struct PublishedSet {
  std::string_view address;  ///< address of the folder, ends with "/"
  std::vector<PublishedFile> files;
};

/// MNIST: four IDX files with GZIP.
const PublishedSet& published_mnist();
/// CIFAR-10, binary version: one archive.
const PublishedSet& published_cifar10();

/// Compares the checksums of the decompressed contents. The compressed bytes may differ, because a mirror may have
/// compressed the files again. Errors: data (other contents, damage), io.
void check_published_contents(const std::filesystem::path& path, const PublishedFile& file);

struct SetDownload {
  std::string mirror = {};         ///< address of another folder with the files; empty: the published one
  DownloadSettings transfer = {};  ///< without `progress`
  /// Called as DownloadSettings::progress, with the name of the file.
  std::function<void(const std::string& name, std::uint64_t done, std::uint64_t total)> progress =
      [](const std::string&, std::uint64_t, std::uint64_t) {};
  std::function<void(const std::string& text)> note = [](const std::string&) {};  ///< receives a line per file
};

/// Downloads the files that are missing in `folder`, and checks the files that are already there. Errors: as
/// `download`; the text also names the files and their address, so that the user can fetch them in another way. data: a
/// file in `folder` has other contents.
void download_set(const PublishedSet& set, const std::filesystem::path& folder, const SetDownload& settings);

}  // namespace carillon
