#include "src/core/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <span>
#include <string_view>

#include "carillon_sources.h"
#include "src/core/text.h"

namespace carillon {
namespace {

/// Returns `text`, and escapes the characters that man macros interpret.
std::string plain(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins_line = escaped.empty() || escaped.back() == '\n';
    if (begins_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string head(const ManualOption& option) {
  return fmt::format("  --{}{}{}{}", option.name, option.name == "help" ? ", -h" : "", option.value.empty() ? "" : " ",
                     option.value);
}

std::string lower_first(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

std::string upper_first(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string man_option(const ManualOption& option) {
  std::string entry = fmt::format(".TP\n\\fB\\-\\-{}\\fR", plain(option.name));
  if (option.name == "help") entry += ", \\fB\\-h\\fR";
  if (!option.value.empty()) entry += fmt::format(" \\fI{}\\fR", plain(option.value));
  entry += fmt::format("\n{}", plain(option.text));
  if (!option.choices.empty()) {
    std::string choices;
    for (const std::string& choice : option.choices) {
      choices += (choices.empty() ? "" : "|\\:") + plain(choice);  // a line may also break after |
    }
    entry += " [" + choices + "]";
  }
  if (!option.default_value.empty()) entry += plain(fmt::format(" (default: {})", option.default_value));
  return entry + "\n";
}

std::string words_of(const std::vector<std::string>& words) {
  return shell_quoted(fmt::format("{}", fmt::join(words, " ")));
}

/// Escapes `text` for a cell of a Markdown table. Code between backticks does not change.
std::string cell(std::string_view text) {
  std::string escaped;
  bool is_code = false;
  for (const char c : text) {
    if (c == '`') is_code = !is_code;
    if (c == '|' || (c == '*' && !is_code)) escaped += '\\';
    if (c == '<' && !is_code) {
      escaped += "&lt;";
    } else {
      escaped += c == '\n' ? ' ' : c;
    }
  }
  return escaped;
}

std::string code_cell(const std::string& text) { return text.empty() ? "" : cell("`" + text + "`"); }

std::string markdown_option(const ManualOption& option) {
  const std::string name = head(option).substr(2);  // the option without the two spaces before it
  std::string text = cell(option.text);
  for (std::size_t i = 0; i < option.choices.size(); ++i) {
    text += (i == 0 ? ". Values: " : ", ") + code_cell(option.choices[i]);
  }
  return fmt::format("| {} | {} | {} |\n", code_cell(name), code_cell(option.default_value), text);
}

/// Returns the width of the longest option head.
std::size_t head_width(std::span<const ManualGroup> groups) {
  std::size_t width = 0;
  for (const ManualGroup& group : groups) {
    for (const ManualOption& option : group.options) width = std::max(width, head(option).size());
  }
  return width;
}

/// Returns "text [one|other] (default)" in lines of at most `width` columns. A line is longer only if one word is
/// longer. Lines after the first begin with `indent` spaces.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (column > 0 && column + 1 + end - begin > width) {
      lines += '\n';
      lines.append(indent, ' ');
      column = 0;
    }
    if (column > 0) lines += ' ';
    lines += text.substr(begin, end - begin);
    column += (column > 0 ? 1 : 0) + end - begin;
    begin = end + 1;
  }
  return lines;
}

/// Lines of the options. The help texts begin at column `head_width`.
std::string option_lines(std::span<const ManualOption> options, std::size_t head_width) {
  std::string lines;
  for (const ManualOption& option : options) {
    constexpr std::size_t page_width = 120, text_width = 60;  // text_width is the smallest width of the text
    const std::size_t indent = head_width + 2;
    const std::string text = fmt::format(
        "{}{}{}", option.text, option.choices.empty() ? "" : fmt::format(" [{}]", fmt::join(option.choices, "|")),
        option.default_value.empty() ? "" : fmt::format(" ({})", option.default_value));
    lines += fmt::format("{:<{}}  {}\n", head(option), head_width,
                         wrapped(text, std::max(page_width - std::min(page_width, indent), text_width), indent));
  }
  return lines;
}

}  // namespace

std::string help_text(const Manual& manual) {
  std::string text;
  for (const std::string& synopsis : manual.synopses) text += (text.empty() ? "usage: " : "       ") + synopsis + "\n";
  text += fmt::format("\n{}.\n", manual.purpose);
  if (!manual.description.empty()) text += fmt::format("\n{}\n", manual.description);
  const std::size_t width = head_width(manual.groups);
  for (const ManualGroup& group : manual.groups) {
    if (group.options.empty()) continue;
    text +=
        fmt::format("\n{}:\n{}", group.heading.empty() ? "options" : group.heading, option_lines(group.options, width));
  }
  text += "\nexit codes:\n";
  for (const ExitStatus& status : manual.exit_statuses)
    text += fmt::format("  {:>2}  {}\n", status.code, status.meaning);
  return text;
}

std::string man_page(const Manual& manual) {
  std::string capitals = manual.program;
  std::ranges::transform(capitals, capitals.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string page = fmt::format(".TH {} 1 \"\" \"Carillon {}\" \"Carillon\"\n", capitals, CARILLON_VERSION);
  page += fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n", plain(manual.program),
                      plain(lower_first(manual.purpose)));
  for (const std::string& synopsis : manual.synopses) page += plain(synopsis) + "\n";
  page += ".fi\n";
  if (!manual.description.empty()) page += fmt::format(".SH DESCRIPTION\n.nf\n{}\n.fi\n", plain(manual.description));
  page += ".SH OPTIONS\n.ad l\n";  // left-aligned; justified text would have wide gaps
  for (const ManualGroup& group : manual.groups) {
    if (group.options.empty()) continue;
    if (!group.heading.empty()) page += fmt::format(".SS {}\n", plain(group.heading));
    for (const ManualOption& option : group.options) page += man_option(option);
  }
  page += ".SH EXIT STATUS\n";
  for (const ExitStatus& status : manual.exit_statuses) {
    page += fmt::format(".TP\n{}\n{}\n", status.code, plain(status.meaning));
  }
  return page;
}

std::string bash_completion(const Manual& manual) {
  std::vector<std::string> names;
  std::string choices;
  for (const ManualGroup& group : manual.groups) {
    for (const ManualOption& option : group.options) {
      names.push_back("--" + option.name);
      if (option.choices.empty()) continue;
      choices += fmt::format("    --{}) words={} ;;\n", option.name, words_of(option.choices));
    }
  }
  return fmt::format(R"(# Completion of {0} in bash.
_carillon_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  COMPREPLY=()
  # "--name=value" comes as three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]] && ((COMP_CWORD > 1)); then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  case $before in
{1}    *)
      if [[ $current == -* ]]; then
        words={2}
      elif ((COMP_CWORD == 1)); then
        words={3}
      fi
      ;;
  esac
  if [[ -n $words ]]; then mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"); fi
}}
complete -o default -F _carillon_{0} {0}
)",
                     manual.program, choices, words_of(names), words_of(manual.words));
}

std::string markdown_page(const Manual& manual) {
  std::string page = fmt::format("# {}\n\n{}.\n\n```text\n", manual.program, manual.purpose);
  for (const std::string& synopsis : manual.synopses) page += synopsis + "\n";
  page += "```\n";
  if (!manual.description.empty()) page += fmt::format("\n```text\n{}\n```\n", manual.description);
  for (const ManualGroup& group : manual.groups) {
    if (group.options.empty()) continue;
    page += fmt::format("\n## {}\n\n| Option | Default | Description |\n|---|---|---|\n",
                        group.heading.empty() ? "Options" : upper_first(group.heading));
    for (const ManualOption& option : group.options) page += markdown_option(option);
  }
  page += "\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n";
  for (const ExitStatus& status : manual.exit_statuses) {
    page += fmt::format("| {} | {} |\n", status.code, cell(status.meaning));
  }
  return page;
}

bool print_document(int argc, const char* const* argv, const std::function<Manual()>& manual) {
  if (argc != 3 || argv[1] != std::string_view("--document")) return false;
  const std::string_view kind = argv[2];
  const auto document = kind == "man"        ? man_page
                        : kind == "bash"     ? bash_completion
                        : kind == "markdown" ? markdown_page
                                             : nullptr;
  if (document == nullptr) return false;
  std::fputs(document(manual()).c_str(), stdout);
  return true;
}

std::string version_line(std::string_view program) {
  constexpr std::string_view sources = CARILLON_SOURCES;
  return fmt::format("{} (Carillon) {}{}{}", program, CARILLON_VERSION, sources.empty() ? "" : ", commit ", sources);
}

}  // namespace carillon
