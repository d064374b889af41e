// HttpServer: an HTTP/1.1 server on this machine. It serves one file, and can show faults that real servers have.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carillon/core/file.h"

namespace carillon::testing {

/// Describes how the server answers. Tests change it between requests.
struct ServedFile {
  std::string content;
  std::string etag = "\"one\"";  ///< empty: the server sends none
  bool knows_ranges = true;      ///< false: the server ignores ranges and sends the whole file
  bool states_size = true;       ///< false: the server sends no size, and the end of the connection is the end of the
                                 ///< file
  int status = 200;              ///< if not 200, the server sends an error page instead of the file
  std::size_t cut = 0;           ///< after this many bytes of the body, the connection ends; 0: never
  std::string redirection = {};  ///< the target to which all paths except "/file" are redirected; empty: no redirection
};

class HttpServer {
 public:
  HttpServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = any_port();
    socklen_t size = sizeof address;
    if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_.get(), 8) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
    setenv("no_proxy", "127.0.0.1", 1);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer() {
    ends_ = true;
    shutdown(listener_.get(), SHUT_RDWR);  // makes accept return with an error
    thread_.join();
  }

  std::string address(const std::string& path = "/file") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  void set(const ServedFile& file) {
    const std::lock_guard lock(mutex_);
    file_ = file;
  }
  /// Returns all requests so far: "GET /file", then the headers that tests check, such as " range: bytes=5-".
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static sockaddr_in any_port() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void serve() {
    while (!ends_) {
      const Descriptor connection(accept(listener_.get(), nullptr, nullptr));
      if (!connection) continue;
      std::string text;
      char bytes[4096];
      for (ssize_t count = 0;
           text.find("\r\n\r\n") == text.npos && (count = read(connection.get(), bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<std::size_t>(count));
      }
      const std::string answer = answer_to(text);
      for (std::size_t sent = 0; sent < answer.size();) {
        const ssize_t count = send(connection.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<std::size_t>(count);
      }
    }
  }

  /// Returns the value of a header, or an empty text if the request does not have the header.
  static std::string header(const std::string& request, const std::string& name) {
    const std::size_t at = request.find("\r\n" + name + ": ");
    if (at == request.npos) return {};
    const std::size_t first = at + name.size() + 4;
    return request.substr(first, request.find("\r\n", first) - first);
  }

  std::string answer_to(const std::string& request) {
    const std::lock_guard lock(mutex_);
    const std::string path = request.substr(0, request.find(" HTTP"));
    const std::string range = header(request, "Range"), if_range = header(request, "If-Range");
    requests_.push_back(path + (range.empty() ? "" : " range: " + range) +
                        (if_range.empty() ? "" : " if-range: " + if_range));
    if (!file_.redirection.empty() && path != "GET /file") {
      return "HTTP/1.1 302 Found\r\nLocation: " + file_.redirection + "\r\nContent-Length: 0\r\n\r\n";
    }
    if (file_.status != 200) {
      return "HTTP/1.1 " + std::to_string(file_.status) +
             " Oops\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsorry";
    }
    std::size_t first = 0;
    const bool is_same_file = if_range.empty() || if_range == file_.etag;
    if (file_.knows_ranges && range.starts_with("bytes=") && is_same_file) first = std::stoul(range.substr(6));
    const std::string all = std::to_string(file_.content.size());
    if (first > 0 && first >= file_.content.size()) {
      return "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */" + all +
             "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    const std::string body = file_.content.substr(first);
    std::string head = first > 0 ? "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(first) +
                                       "-" + std::to_string(file_.content.size() - 1) + "/" + all + "\r\n"
                                 : "HTTP/1.1 200 OK\r\n";
    if (!file_.etag.empty()) head += "ETag: " + file_.etag + "\r\n";
    if (file_.states_size) head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return head + "Connection: close\r\n\r\n" + (file_.cut > 0 ? body.substr(0, file_.cut) : body);
  }

  const Descriptor listener_;
  int port_ = 0;
  mutable std::mutex mutex_;
  ServedFile file_;
  std::vector<std::string> requests_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace carillon::testing
