// Download: fetches a file over HTTP or HTTPS with libcurl. If an earlier attempt left a part of the file, resumes
// after this part.
//
// The file has the name PATH.part until it is complete, checked and synced. PATH.part.tag holds the validator of the
// part (RFC 9110, section 8.8): the server's ETag or Last-Modified. A resumed request has the headers Range and
// If-Range, so the server sends the rest only if its file is still the same one, and the whole file otherwise.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace carillon {

struct DownloadSettings {
  int tries = 5;                             ///< attempts in a row without a new byte; then the download fails
  std::chrono::milliseconds pause{1000};     ///< before the second attempt; doubles with each further one
  std::chrono::seconds connect_timeout{30};  ///< for each attempt
  std::chrono::seconds stall_timeout{60};    ///< without any byte
  std::uint64_t max_bytes = std::uint64_t{1} << 30;
  /// Called after each piece with the number of bytes on the disk and the size of the file (0 if the server does not
  /// state the size).
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = [](std::uint64_t, std::uint64_t) {};
  /// Receives a line before each further attempt.
  std::function<void(const std::string& text)> note = [](const std::string&) {};
};

/// Fetches `address` to `path`; creates the folder of `path` if it is missing. When the part is complete,
/// `check_contents(part)` is called; it throws Error(data) if the contents are wrong. A resumed part with wrong
/// contents is fetched again from its beginning. A file with wrong contents is removed. An incomplete part stays, and
/// the next call resumes it. Lost connections, and statuses such as 503, are tried again. Errors, naming the address:
/// no_input (status 404 or 410), io (no connection, another status), data (wrong contents, more than max_bytes). Errors
/// that name the file: io (for example a full disk); usage (another process downloads it).
void download(const std::string& address, const std::filesystem::path& path,
              const std::function<void(const std::filesystem::path& part)>& check_contents,
              const DownloadSettings& settings = {});

}  // namespace carillon
