// Functions for the tests of pages, which read facts from a page.
#pragma once

#include <algorithm>
#include <string>

#include "src/report/html_page.h"
#include "tests/support/markup.h"

namespace carillon::testing {

inline PageFacts page_facts() {
  PageFacts facts{.network = {"runs/a/model.ckpt-7.h5", "resnet9", "moving averages", 700},
                  .version = "image_eval (Carillon) 0.1.0",
                  .records = {"data/test-*"},
                  .record_count = 0,
                  .scores = {},
                  .curves = {},
                  .pictures = {},
                  .options = {{"--learning-rate", "0.1"}}};
  for (int step = 0; step < 1000; ++step) {
    facts.curves.loss.push_back({static_cast<double>(step), 2.0 / (1.0 + step)});
    facts.curves.learning_rate.push_back({static_cast<double>(step), 0.1});
  }
  Picture picture{.height = 96, .width = 96, .channels = 3, .pixels = {}};
  for (int p = 0; p < 96 * 96 * 3; ++p) picture.pixels.push_back(static_cast<std::uint8_t>(p * 7919 % 256));
  const ShownPrediction shown{.truth = "1",
                              .predicted = "2",
                              .rating = "98.10 %",
                              .is_right = false,
                              .picture = picture,
                              .origin = "test-0: record 1"};
  for (const char* const title : {"Most certain mistakes", "Least certain predictions"}) {
    facts.pictures.push_back({title, std::vector<ShownPrediction>(max_page_pictures, shown)});
  }
  return facts;
}

/// Returns how many elements have this name.
inline std::ptrdiff_t count(const Markup& page, const std::string& element) {
  return std::ranges::count(page.elements, element);
}

}  // namespace carillon::testing
