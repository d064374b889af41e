#include "src/report/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "carillon/core/file.h"
#include "src/core/text.h"
#include "src/report/evaluation_report.h"
#include "src/report/html_style.h"

namespace carillon {

std::string html_text(std::string_view text, std::size_t max_bytes) {
  std::string escaped;
  for (const char c : printable(text, max_bytes)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) {
      return at < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[at])} : 0u;
    };
    const std::uint32_t group = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (std::size_t digit = 0; digit < 4; ++digit) {
      text += i + digit <= bytes.size() ? digits[group >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return text;
}

std::string table_box(std::string_view kind, std::string_view label, const std::string& rows) {
  return fmt::format(
      "<div class=\"box{}\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{}\">{}</table></div>\n",
      kind.starts_with("matrix") ? " whole" : "", label, kind, rows);
}

std::string table_heading(std::initializer_list<std::string_view> titles) {
  std::string row = "<thead><tr>";
  for (std::string_view title : titles) {
    const bool is_number = title.starts_with('#');
    if (is_number) title.remove_prefix(1);
    row += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"n\"" : "", title);
  }
  return row + "</tr></thead>";
}

std::string number_cell(std::string_view text) { return fmt::format("<td class=\"n\">{}</td>", text); }

std::string number_cell(std::int64_t count) { return number_cell(fmt::format("{}", count)); }

std::string number_cell(std::optional<double> number) {
  return number_cell(number && !std::isnan(*number) ? fmt::format("{:.4f}", *number) : "–");
}

std::string name_cell(std::string_view name) { return fmt::format("<td class=\"name\"><bdi>{}</bdi></td>", name); }

std::string html_name(std::span<const std::string> names, std::size_t i) {
  return html_text(name_or_number(names, i), 120);
}

namespace {

/// A score that the page shows.
struct ShownScore {
  const Score& score;
  const ScoreText& text;
};

std::vector<ShownScore> shown_scores(const PageFacts& facts, const TaskContent& content) {
  std::vector<ShownScore> shown;
  for (const ScoreText& text : content.scores) {
    const auto score = std::ranges::find(facts.scores, text.name, &Score::name);
    if (score != facts.scores.end()) shown.push_back({*score, text});
  }
  return shown;
}

PageSection score_section(const std::vector<ShownScore>& shown) {
  std::string tiles;
  for (const auto& [score, text] : shown) {
    const std::string meaning = score.ratio ? fmt::format("{} of {} records", score.ratio->part, score.ratio->whole)
                                            : std::string(text.meaning);
    tiles += fmt::format("<div><dt>{}</dt><dd class=\"value\">{}</dd><dd>{}</dd></div>\n", text.title,
                         score_text(score.value), meaning);
  }
  return {"scores", "Scores", fmt::format("<dl class=\"scores\">\n{}</dl>", tiles)};
}

std::string evaluation_table(const LearningCurves& curves, const std::vector<ShownScore>& shown) {
  std::vector<ShownScore> columns;
  for (const ShownScore& one : shown) {
    if (!curves.of_score(one.score.logged_as()).empty()) columns.push_back(one);
  }
  std::string rows = "<thead><tr><th scope=\"col\" class=\"n\">Step</th>";
  for (const ShownScore& column : columns) {
    rows += fmt::format("<th scope=\"col\" class=\"n\">{}</th>", column.text.title);
  }
  rows += "</tr></thead><tbody>\n";
  for (const LearningCurves::Evaluation& evaluation : curves.evaluations) {
    rows += "<tr>" + number_cell(evaluation.step);
    for (const ShownScore& column : columns) {
      const auto score = evaluation.scores.find(column.score.logged_as());
      rows += number_cell(score != evaluation.scores.end() ? score_text(score->second) : "–");
    }
    rows += "</tr>\n";
  }
  return fmt::format("<details><summary>{} as a table</summary>{}</details>\n",
                     count_text(curves.evaluations.size(), "evaluation"),
                     table_box("sort", "Evaluations", rows + "</tbody>"));
}

PageSection curve_section(const PageFacts& facts, const std::vector<ShownScore>& shown) {
  const LearningCurves& curves = facts.curves;
  PageSection section{"curves", "Learning curves", {}};
  if (curves.is_empty()) {
    section.html = "<p class=\"note\">The folder of the checkpoint has no metrics.jsonl with losses or scores.</p>\n";
    return section;
  }
  const auto step = static_cast<double>(facts.network.step);
  double last = step;
  for (const CurvePoint& point : curves.loss) last = std::max(last, point.step);
  for (const LearningCurves::Evaluation& one : curves.evaluations) last = std::max(last, static_cast<double>(one.step));
  std::string charts = line_chart({.title = "Loss",
                                   .lines = {{"training", curves.loss}, {"evaluation", curves.of_score("loss"), true}},
                                   .marked_step = step,
                                   .last_step = last,
                                   .starts_at_zero = true});
  if (!shown.empty()) {
    charts += line_chart({.title = std::string(shown.front().text.title),
                          .lines = {{"evaluation", curves.of_score(shown.front().score.logged_as()), true}},
                          .marked_step = step,
                          .last_step = last});
  }
  charts += line_chart({.title = "Learning rate",
                        .lines = {{"training", curves.learning_rate}},
                        .marked_step = step,
                        .last_step = last,
                        .starts_at_zero = true});
  section.html = fmt::format(
      "<p class=\"note\">The dashed line is step {}, which this page evaluates. The training loss has no L2 "
      "terms. It is computed with the training's augmentation and loss options.</p>\n<div "
      "class=\"charts\">\n{}</div>\n",
      facts.network.step, charts);
  if (!curves.evaluations.empty()) section.html += evaluation_table(curves, shown);
  return section;
}

/// Returns ✓ or ✗, with a text for screen readers.
std::string_view mark_of(bool is_right) {
  return is_right ? "✓<span class=\"hidden\"> right</span> " : "✗<span class=\"hidden\"> wrong</span> ";
}

std::string figure(const ShownPrediction& one) {
  constexpr int quality = 85;
  constexpr std::size_t most = 120;
  const std::string truth = html_text(one.truth, most), predicted = html_text(one.predicted, most);
  const char* const kind = !one.is_right ? "" : *one.is_right ? " right" : " wrong";
  return fmt::format(
      "<figure><img src=\"data:image/jpeg;base64,{}\" width=\"{}\" height=\"{}\" alt=\"{}\"/><figcaption>"
      "<span class=\"line\"><i>true</i> <bdi>{}</bdi></span><span class=\"line\"><i>predicted</i> <bdi>{}</bdi></span>"
      "<span class=\"line{}\">{}{}</span><small>{}</small></figcaption></figure>\n",
      base64(encode_jpeg(one.picture, quality)), one.picture.width, one.picture.height, truth, truth, predicted, kind,
      one.is_right ? mark_of(*one.is_right) : "", html_text(one.rating), html_text(one.origin));
}

PageSection picture_section(const PageFacts& facts, const TaskContent& content) {
  PageSection section{"pictures", "Pictures", fmt::format("<p class=\"note\">{}</p>\n", content.about_pictures)};
  for (const ShownPictures& list : facts.pictures) {
    section.html += fmt::format("<h3>{}</h3>\n", list.title);
    if (list.shown.empty()) {
      section.html += "<p>None.</p>\n";
      continue;
    }
    section.html += "<div class=\"pictures\">\n";
    for (const ShownPrediction& one : list.shown) section.html += figure(one);
    section.html += "</div>\n";
  }
  return section;
}

PageSection run_section(const PageFacts& facts) {
  const auto row = [](std::string_view name, std::string_view value) {
    constexpr std::size_t most = 400;
    return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", html_text(name), html_text(value, most));
  };
  std::string records, options;
  for (const std::string& pattern : facts.records) records += (records.empty() ? "" : " ") + pattern;
  const std::string rows = row("Checkpoint", facts.network.checkpoint) + row("Model", facts.network.model) +
                           row("Step", std::to_string(facts.network.step)) +
                           row("Evaluated values", facts.network.values) + row("Evaluated records", records) +
                           row("Program", facts.version);
  PageSection section{"run", "Run", table_box("facts", "Run", "<tbody>\n" + rows + "</tbody>")};
  for (const auto& [name, value] : facts.options) options += row(name, value);
  if (!options.empty()) {
    section.html += fmt::format("<details><summary>Options of the training</summary>{}</details>\n",
                                table_box("facts", "Options of the training", "<tbody>\n" + options + "</tbody>"));
  }
  return section;
}

std::string head(const PageFacts& facts) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<title>Evaluation of {} at step {}</title>\n<style>{}</style>\n</head>\n",
      html_text(facts.network.model), facts.network.step, html_style);
}

std::string header(const PageFacts& facts, const std::string& outputs, const std::vector<PageSection>& sections) {
  std::string links;
  for (const PageSection& section : sections) {
    links += fmt::format("<a href=\"#{}\">{}</a>", section.id, section.title);
  }
  return fmt::format(
      "<header><h1>Evaluation of {}</h1>\n<p class=\"sub\">{}: {} at step {}, {} records, {}</p>\n"
      "<nav aria-label=\"Sections\">{}</nav></header>\n",
      html_text(facts.network.model), html_text(facts.network.checkpoint), html_text(facts.network.values),
      facts.network.step, facts.record_count, outputs, links);
}

}  // namespace

std::string html_page(const PageFacts& facts, const TaskContent& content) {
  const std::vector<ShownScore> shown = shown_scores(facts, content);
  std::vector<PageSection> sections{score_section(shown), curve_section(facts, shown)};
  sections.insert(sections.end(), content.sections.begin(), content.sections.end());
  sections.push_back(picture_section(facts, content));
  sections.push_back(run_section(facts));
  std::string page = head(facts) + "<body>\n" + header(facts, content.outputs, sections) + "<main>\n";
  for (const PageSection& section : sections) {
    page += fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", section.id, section.title, section.html);
  }
  return page + fmt::format("</main>\n<footer>Written by {}.</footer>\n<script>{}</script>\n</body>\n</html>\n",
                            html_text(facts.version), html_script);
}

void write_page(const std::filesystem::path& path, const std::string& page) {
  write_file_atomically(path, std::as_bytes(std::span(page)));
}

}  // namespace carillon
