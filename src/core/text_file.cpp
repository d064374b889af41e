#include "src/core/text_file.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "carillon/core/file.h"

namespace carillon {
namespace {

enum class Encoding { bytes, utf16_little, utf16_big };

/// The encoding of a text, and the number of bytes of its byte order mark.
struct Start {
  Encoding encoding = Encoding::bytes;
  std::size_t mark_bytes = 0;
};

Start start_of(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return {Encoding::bytes, 3};
  if (text.starts_with("\xFF\xFE")) return {Encoding::utf16_little, 2};
  if (text.starts_with("\xFE\xFF")) return {Encoding::utf16_big, 2};
  if (text.size() >= 2 && text[0] != '\0' && text[1] == '\0') return {Encoding::utf16_little, 0};
  if (text.size() >= 2 && text[0] == '\0' && text[1] != '\0') return {Encoding::utf16_big, 0};
  return {};
}

void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  const auto add_rest = [&](int shift) { add(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add_rest(0);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add_rest(6);
    add_rest(0);
  } else {
    add(0xF0 | code >> 18);
    add_rest(12);
    add_rest(6);
    add_rest(0);
  }
}

/// nullopt: an odd number of bytes, or half of a surrogate pair (RFC 2781).
std::optional<std::string> utf8_of_utf16(std::string_view bytes, bool is_big) {
  if (bytes.size() % 2 != 0) return std::nullopt;
  const auto unit = [&](std::size_t i) {
    const auto first = static_cast<unsigned char>(bytes[i]), second = static_cast<unsigned char>(bytes[i + 1]);
    return static_cast<char32_t>(is_big ? first << 8 | second : second << 8 | first);
  };
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    char32_t code = unit(i);
    if (code >= 0xD800 && code < 0xE000) {
      const char32_t low = i + 2 < bytes.size() ? unit(i += 2) : 0;
      if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return std::nullopt;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(text, code);
  }
  return text;
}

/// Replaces CR LF and CR by LF.
void unify_line_ends(std::string& text) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_return = text[i] == '\r';
    if (is_return && i + 1 < text.size() && text[i + 1] == '\n') continue;
    text[end++] = is_return ? '\n' : text[i];
  }
  text.resize(end);
}

}  // namespace

std::string read_text_file(const std::filesystem::path& path, const std::string& subject, std::size_t max_bytes,
                           ExitCode unsuitable) {
  std::string text = read_plain_file(path, subject, max_bytes, unsuitable);
  const Start start = start_of(text);
  if (start.encoding == Encoding::bytes) {
    text.erase(0, start.mark_bytes);
  } else {
    const std::string_view units = std::string_view(text).substr(start.mark_bytes);
    std::optional<std::string> converted = utf8_of_utf16(units, start.encoding == Encoding::utf16_big);
    if (!converted) fail(unsuitable, "{}: is damaged UTF-16: save it as UTF-8", subject);
    text = *std::move(converted);
  }
  unify_line_ends(text);
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    fail(unsuitable, "{}: line {} has a NUL character: save the file as UTF-8 text", subject,
         1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n'));
  }
  return text;
}

}  // namespace carillon
