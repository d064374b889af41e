// Downloads: fetches a file over HTTP or HTTPS. Also fetches the published files of a dataset and compares the
// checksums of their contents.
#pragma once

#include <openssl/evp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/core/handle.h"

namespace carillon {

// Download: fetches a file over HTTP or HTTPS with libcurl. If an earlier attempt left a part of the file, resumes
// after this part.
//
// The file has the name PATH.part until it is complete, checked and synced. PATH.part.tag holds the validator of the
// part (RFC 9110, section 8.8): the server's ETag or Last-Modified. A resumed request has the headers Range and
// If-Range. If the server's file is still the same, the server sends only the rest. Otherwise it sends the whole file.

struct DownloadSettings {
  int tries = 5;                          ///< the download fails after this many attempts in a row without a new byte
  std::chrono::milliseconds pause{1000};  ///< pause before the second attempt; the pause doubles with each further
                                          ///< attempt
  std::chrono::seconds connect_timeout{30};  ///< time limit for the connection, in each attempt
  std::chrono::seconds stall_timeout{60};    ///< longest time without a new byte, in each attempt
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Called after each piece. The arguments are the number of bytes on the disk and the size of the file (0 if the
  /// server does not state the size).
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = [](std::uint64_t, std::uint64_t) {};
  /// Receives a line before each further attempt.
  std::function<void(const std::string& text)> note = [](const std::string&) {};
};

/// Fetches `address` to `path`; creates the folder of `path` if it is missing. When the part is complete, calls
/// `check_contents(part)`, which throws Error(data) if the contents are wrong. If a resumed part has wrong contents,
/// fetches the file again from its beginning. Removes a complete file with wrong contents. An incomplete part stays,
/// and the next call resumes it. After a lost connection, or a status such as 503, tries again. Errors that name the
/// address: no_input (the status is 404 or 410), io (there is no connection, or the server returns another status),
/// data (the contents are wrong, or have more than max_bytes bytes). Errors that name the file: io (for example, the
/// disk is full); usage (another process downloads the file).
void download(const std::string& address, const std::filesystem::path& path,
              const std::function<void(const std::filesystem::path& part)>& check_contents,
              const DownloadSettings& settings = {});

// Published set: the files of a dataset on its web server, with the checksums of their contents.

/// Computes the SHA-256 checksum (FIPS 180-4) of bytes that arrive in pieces, with OpenSSL's libcrypto.
class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> bytes);
  /// Returns the checksum as 64 hexadecimal digits. Call it once, after the last `update`.
  std::string digits();

 private:
  Handle<EVP_MD_CTX*, EVP_MD_CTX_free> context_;
};

/// The checksum of the decompressed file, or of one member of an archive.
struct PublishedContents {
  std::string_view member;  ///< file name in the archive; empty: the file is not an archive
  std::string_view sha256;  ///< 64 hexadecimal digits
};

struct PublishedFile {
  std::string_view name;             ///< name of the file on the web server and in the folder
  std::string_view other_name = {};  ///< another file name in the folder, which the converter prefers; empty: none
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
/// compressed the files again. Errors: data (the contents differ, or the file is damaged), io.
void check_published_contents(const std::filesystem::path& path, const PublishedFile& file);

struct SetDownload {
  std::string mirror = {};         ///< address of another folder with the files; empty: use the published address
  DownloadSettings transfer = {};  ///< settings of each download; its `progress` is not used
  /// Like DownloadSettings::progress, but also receives the name of the file.
  std::function<void(const std::string& name, std::uint64_t done, std::uint64_t total)> progress =
      [](const std::string&, std::uint64_t, std::uint64_t) {};
  std::function<void(const std::string& text)> note = [](const std::string&) {};  ///< receives a line per file
};

/// Downloads the files that are missing in `folder`, and checks the files that are already there. Errors: see
/// `download`; data (a file in `folder` has other contents). Messages of failed downloads also name the files and their
/// address, so that the user can fetch them in another way.
void download_set(const PublishedSet& set, const std::filesystem::path& folder, const SetDownload& settings);

}  // namespace carillon
