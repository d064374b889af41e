#include "src/data/download/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "carillon/core/error.h"
#include "carillon/core/file.h"
#include "carillon/core/handle.h"
#include "src/core/file_tools.h"
#include "src/core/text.h"

namespace carillon {
namespace {

namespace fs = std::filesystem;

constexpr long ok = 200, partial_content = 206, range_not_satisfiable = 416;
constexpr std::size_t max_tag_bytes = 1024;

/// The exception for a failure after which a later attempt may succeed.
struct Interrupted {
  std::string cause;
};

/// Returns the value in the header line `line`, which is "Name: value" and a line end. Returns nullopt if the line does
/// not have the name `name` (in lower case).
std::optional<std::string> header_value(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  const auto in_lower_case = [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); };
  if (!std::ranges::equal(line.substr(0, name.size()), name, {}, in_lower_case)) return std::nullopt;
  line.remove_prefix(name.size() + 1);
  const auto first = line.find_first_not_of(" \t\r\n"), last = line.find_last_not_of(" \t\r\n");
  return first == line.npos ? std::string() : std::string(line.substr(first, last + 1 - first));
}

/// The headers of the last response.
struct Headers {
  std::string etag, last_modified, content_range;

  void add(std::string_view line) {
    if (line.starts_with("HTTP/")) *this = {};  // a new response clears the headers, for example after a redirection
    if (const auto value = header_value(line, "etag")) etag = *value;
    if (const auto value = header_value(line, "last-modified")) last_modified = *value;
    if (const auto value = header_value(line, "content-range")) content_range = *value;
  }
  /// Returns the value for If-Range, or an empty text if there is none. Does not use a weak ETag, because a weak ETag
  /// does not promise equal bytes.
  std::string validator() const { return !etag.empty() && !etag.starts_with("W/") ? etag : last_modified; }
};

/// The numbers in a header such as "bytes 100-199/200" or "bytes */200".
struct ContentRange {
  std::optional<std::uint64_t> first, total;

  explicit ContentRange(std::string_view text) {
    if (!text.starts_with("bytes ")) return;
    text.remove_prefix(6);
    first = number(text);
    if (const auto slash = text.find('/'); slash != text.npos) total = number(text.substr(slash + 1));
  }

 private:
  static std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    return result.ec == std::errc() ? std::optional(value) : std::nullopt;
  }
};

/// The files PATH.part, which is locked and open for appending, and PATH.part.tag.
class Part {
 public:
  explicit Part(const fs::path& path)
      : path_(path.string() + ".part"),
        tag_path_(path_.string() + ".tag"),
        file_(open_predictable(path_, O_WRONLY | O_CREAT | O_APPEND, path_.string())) {
    // Another process may have published or removed the file before it could be locked.
    if (try_lock(file_.get()) == LockOutcome::held || !same_file(file_.get(), path_)) {
      fail(ExitCode::usage, "{}: another process downloads it", path_.string());
    }
    bytes_ = stamp_of(file_, path_.string()).bytes;
  }
  Part(const Part&) = delete;  // not copyable: the destructor of a copy would remove the file
  Part& operator=(const Part&) = delete;
  /// Removes an empty part, which the next attempt could not resume.
  ~Part() {
    std::error_code ignored;
    if (bytes_ == 0 && same_file(file_.get(), path_)) fs::remove(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Returns the stored validator of the part, or an empty text if there is none.
  std::string tag() const {
    std::string text(max_tag_bytes, '\0');
    std::size_t count = 0;
    const Descriptor file = open_predictable(tag_path_, O_RDONLY);
    if (!file || read_all(file.get(), std::as_writable_bytes(std::span(text)), count) != 0) return {};
    text.resize(count);
    return is_printable(text) ? text : std::string();  // the check is necessary, because the tag becomes the value of a
                                                       // header
  }

  /// Removes the contents. Data that are written later belong to the version of the file with this validator.
  void restart(const std::string& tag) {
    if (ftruncate(file_.get(), 0) != 0) fail_to_write(errno);
    bytes_ = 0;
    if (tag.empty() || tag.size() > max_tag_bytes) {
      remove_file(tag_path_);
    } else {
      // If the tag was written only partly, it does not match, and the server sends the whole file again.
      const Descriptor file = open_predictable(tag_path_, O_WRONLY | O_CREAT | O_TRUNC, tag_path_.string());
      if (const int error = write_all(file.get(), std::as_bytes(std::span(tag)))) fail_to_write(error);
    }
  }

  void append(std::span<const std::byte> bytes) {
    const int error = write_all(file_.get(), bytes);
    if (error != 0) fail_to_write(error);
    bytes_ += bytes.size();
  }

  /// Renames the part to its final name.
  void publish(const fs::path& path) {
    if (fsync(file_.get()) != 0) fail_to_write(errno);
    std::error_code error;
    fs::rename(path_, path, error);
    if (error) fail(ExitCode::io, "{}: cannot be renamed: {}", path_.string(), error.message());
    remove_file(tag_path_);
    sync_directory(path.has_parent_path() ? path.parent_path() : ".");
  }

  void remove() {
    remove_file(path_);
    remove_file(tag_path_);
  }

 private:
  [[noreturn]] void fail_to_write(int error) const {
    fail(ExitCode::io, "{}: cannot be written: {}", path_.string(), errno_text(error));
  }

  fs::path path_, tag_path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
};

void initialise_curl() {
  static const CURLcode result = curl_global_init(CURL_GLOBAL_DEFAULT);
  check(result == CURLE_OK, "libcurl cannot be initialised");
}

/// One request. libcurl calls the functions of this class while the response arrives.
class Request {
 public:
  Request(const std::string& address, Part& part, const DownloadSettings& settings)
      : address_(address), part_(part), settings_(settings), curl_(curl_easy_init()) {
    if (!curl_) throw std::bad_alloc();
  }
  Request(const Request&) = delete;  // libcurl holds the address of this object
  Request& operator=(const Request&) = delete;

  /// Sends the request and receives the response. Returns when the part is complete. Errors: see `download`;
  /// Interrupted.
  void perform();

 private:
  static std::size_t take_header(char* data, std::size_t size, std::size_t count, void* self) {
    return static_cast<Request*>(self)->guarded(size * count, [&](Request& request) {
      request.headers_.add({data, size * count});
    });
  }
  static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* self) {
    return static_cast<Request*>(self)->guarded(
        size * count, [&](Request& request) { request.take(std::as_bytes(std::span(data, size * count))); });
  }
  /// Stores exceptions until libcurl has returned.
  template <typename Action>
  std::size_t guarded(std::size_t bytes, const Action& action) noexcept {
    try {
      action(*this);
      return bytes;
    } catch (...) {
      exception_ = std::current_exception();
      return bytes == 0 ? 1 : 0;  // libcurl ends the transfer if the result differs from `bytes`
    }
  }
  void set_options();
  long status() const {
    long code = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
  /// Called for the first byte of the body. Determines the position in the file at which the body begins.
  void begin_body();
  void take(std::span<const std::byte> bytes);
  void check_size(std::uint64_t bytes) const {
    if (bytes > settings_.max_bytes) {
      fail(ExitCode::data, "{}: has more than {} bytes, the limit", address_, settings_.max_bytes);
    }
  }
  void finish(CURLcode result);
  [[noreturn]] void refuse(long code) const;

  const std::string& address_;
  Part& part_;
  const DownloadSettings& settings_;
  Handle<CURL*, curl_easy_cleanup> curl_;
  Handle<curl_slist*, curl_slist_free_all> request_headers_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  std::uint64_t offset_ = 0;  // position of the first requested byte
  Headers headers_;
  bool has_begun_ = false;   // true: the body has begun
  bool is_stored_ = false;   // true: the body is appended to the part
  std::uint64_t total_ = 0;  // size of the whole file; 0: unknown
  std::exception_ptr exception_;
};

void Request::set_options() {
  const auto set = [&](CURLoption option, auto value) {
    check(curl_easy_setopt(curl_.get(), option, value) == CURLE_OK, "libcurl refuses an option");
  };
  set(CURLOPT_URL, address_.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_USERAGENT, "Carillon");
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(settings_.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.stall_timeout.count()));
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_HEADERFUNCTION, &Request::take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &Request::take_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  if (offset_ == 0) return;
  set(CURLOPT_RANGE, fmt::format("{}-", offset_).c_str());
  if (const std::string tag = part_.tag(); !tag.empty()) {
    request_headers_ =
        Handle<curl_slist*, curl_slist_free_all>(curl_slist_append(nullptr, ("If-Range: " + tag).c_str()));
    if (!request_headers_) throw std::bad_alloc();
    set(CURLOPT_HTTPHEADER, request_headers_.get());
  }
}

void Request::begin_body() {
  has_begun_ = true;
  const long code = status();
  if (code != ok && code != partial_content) return;
  curl_off_t length = -1;
  curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  if (code == ok) {
    part_.restart(headers_.validator());
    if (length > 0) total_ = static_cast<std::uint64_t>(length);
  } else {
    const ContentRange range(headers_.content_range);
    if (range.first != part_.bytes()) {
      part_.restart({});
      throw Interrupted{fmt::format("the server sent the range '{}'", printable(headers_.content_range))};
    }
    total_ = range.total.value_or(0);
  }
  check_size(total_);
  is_stored_ = true;
}

void Request::take(std::span<const std::byte> bytes) {
  if (!has_begun_) begin_body();
  if (!is_stored_) return;  // not stored, because the body is an error page
  check_size(part_.bytes() + bytes.size());
  part_.append(bytes);
  settings_.progress(part_.bytes(), total_);
}

void Request::refuse(long code) const {
  if (code == 404 || code == 410) {
    fail(ExitCode::no_input, "{}: the server has no such file (HTTP status {})", address_, code);
  }
  fail(ExitCode::io, "{}: the server refuses the request (HTTP status {})", address_, code);
}

void Request::finish(CURLcode result) {
  if (exception_) std::rethrow_exception(exception_);
  if (result != CURLE_OK) {
    const std::string cause = error_[0] != '\0' ? error_.data() : curl_easy_strerror(result);
    const bool is_final = result == CURLE_URL_MALFORMAT || result == CURLE_UNSUPPORTED_PROTOCOL ||
                          result == CURLE_TOO_MANY_REDIRECTS || result == CURLE_PEER_FAILED_VERIFICATION ||
                          result == CURLE_SSL_CACERT_BADFILE;
    if (is_final) fail(ExitCode::io, "{}: {}", address_, cause);
    throw Interrupted{cause};
  }
  const long code = status();
  if (code == range_not_satisfiable && offset_ > 0) {
    if (ContentRange(headers_.content_range).total == offset_) return;  // the part was already complete
    part_.restart({});
    throw Interrupted{"the part is no part of the server's file"};
  }
  if (code == 408 || code == 429 || code >= 500) throw Interrupted{fmt::format("HTTP status {}", code)};
  if (code != ok && code != partial_content) refuse(code);
  if (!has_begun_) begin_body();  // the file is empty
  if (total_ > 0 && part_.bytes() != total_) {
    throw Interrupted{fmt::format("only {} of {} bytes arrived", part_.bytes(), total_)};
  }
}

void Request::perform() {
  offset_ = part_.bytes();
  set_options();
  finish(curl_easy_perform(curl_.get()));
}

/// Completes the part. Errors: see `download`.
void fetch(const std::string& address, Part& part, const DownloadSettings& settings) {
  std::uint64_t most_bytes = part.bytes();
  std::chrono::milliseconds pause = settings.pause;
  for (int tries = 1;; ++tries) {
    try {
      Request(address, part, settings).perform();
      return;
    } catch (const Interrupted& failure) {
      if (part.bytes() > most_bytes) {
        most_bytes = part.bytes();
        tries = 0;
        pause = settings.pause;
      }
      if (tries >= settings.tries) fail(ExitCode::io, "{}: {}, in {} attempts", address, failure.cause, tries);
      settings.note(fmt::format("{}: {}; {} are on the disk; next attempt in {:.3g} s", address, failure.cause,
                                size_text(static_cast<double>(part.bytes())),
                                std::chrono::duration<double>(pause).count()));
      std::this_thread::sleep_for(pause);
      pause *= 2;
    }
  }
}

}  // namespace

void download(const std::string& address, const fs::path& path,
              const std::function<void(const fs::path& part)>& check_contents, const DownloadSettings& settings) {
  initialise_curl();
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) fail(ExitCode::io, "{}: cannot be created: {}", path.parent_path().string(), error.message());
  Part part(path);
  for (bool is_resumed = part.bytes() > 0;; is_resumed = false) {
    fetch(address, part, settings);
    try {
      check_contents(part.path());
      break;
    } catch (const Error& wrong) {
      if (wrong.code() != ExitCode::data) throw;
      if (!is_resumed) {
        part.remove();
        fail(ExitCode::data, "{}: {}", address, wrong.what());
      }
      part.restart({});
      settings.note(fmt::format("{}: {}; it is downloaded again from its beginning", address, wrong.what()));
    }
  }
  part.publish(path);
}

}  // namespace carillon
