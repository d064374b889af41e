// Markup: checks whether a text is well-formed XML, and collects its elements, texts and attributes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// Parses the part of XML that Carillon's pages use: a document type, then elements, attributes and texts. Comments,
/// CDATA sections and processing instructions are not supported. If the text is not well-formed, `fault` states the
/// reason. Otherwise `fault` is empty.
struct Markup {
  std::string fault;
  std::vector<std::string> elements;  ///< names, in the order of their start tags
  std::string text;                   ///< text of all elements except style and script; entities are replaced by their
                                      ///< characters
  std::vector<std::string> values;    ///< values of all attributes

  explicit Markup(std::string_view page) {
    std::vector<std::string> open;
    constexpr std::string_view type = "<!DOCTYPE html>\n";
    if (page.substr(0, type.size()) == type) page.remove_prefix(type.size());
    while (!page.empty() && fault.empty()) {
      const std::size_t tag = page.find('<');
      const std::string found = resolved(page.substr(0, tag));
      if (open.empty() || (open.back() != "style" && open.back() != "script")) text += found;
      if (tag == page.npos) break;
      page.remove_prefix(tag + 1);
      const std::size_t end = page.find('>');
      if (end == page.npos) fault = "a tag does not end";
      if (!fault.empty()) break;
      read_tag(page.substr(0, end), open);
      page.remove_prefix(end + 1);
    }
    if (fault.empty() && !open.empty()) fault = "<" + open.back() + "> is not closed";
  }

 private:
  void read_tag(std::string_view tag, std::vector<std::string>& open) {
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) fault = "<" + std::string(tag) + "> closes another element";
      if (!open.empty()) open.pop_back();
      return;
    }
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::size_t name_end = std::min(tag.find(' '), tag.size());
    elements.emplace_back(tag.substr(0, name_end));
    if (!is_empty) open.emplace_back(elements.back());
    tag.remove_prefix(name_end);
    while (!tag.empty() && fault.empty()) {
      const std::size_t equals = tag.find("=\""), end = equals == tag.npos ? tag.npos : tag.find('"', equals + 2);
      if (tag[0] != ' ' || end == tag.npos) {
        fault = "<" + elements.back() + "> has bad attributes: " + std::string(tag);
        return;
      }
      values.push_back(resolved(tag.substr(equals + 2, end - equals - 2)));
      tag.remove_prefix(end + 1);
    }
  }

  std::string resolved(std::string_view raw) {
    struct Entity {
      std::string_view name, value;
    };
    constexpr Entity entities[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}};
    std::string found;
    while (!raw.empty()) {
      if (raw[0] != '&') {
        found += raw[0];
        raw.remove_prefix(1);
        continue;
      }
      bool is_known = false;
      for (const Entity& entity : entities) {
        if (is_known || !raw.starts_with(entity.name)) continue;
        found += entity.value;
        raw.remove_prefix(entity.name.size());
        is_known = true;
      }
      if (!is_known) {
        fault = "an unknown entity: " + std::string(raw.substr(0, 10));
        return found;
      }
    }
    return found;
  }
};

}  // namespace carillon
