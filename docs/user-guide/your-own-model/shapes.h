// shapes_train and shapes_eval share this file: the format of the records, a network, and the defaults of the options.
#pragma once

#include <carillon/cli/program_spec.h>
#include <kernels/batch_norm/batch_norm.h>
#include <kernels/conv2d/conv2d.h>
#include <kernels/dense/dense.h>
#include <kernels/elementwise/elementwise.h>
#include <kernels/image_input/image_input.h>
#include <kernels/pool/pool.h>

/// Records of grey images of 24x24 pixels (feature "pixels") in three classes (feature "shape").
inline const carillon::RecordSchema shape_records{.keys = {.image = "pixels", .label = "shape"},
                                                  .image_shape = {.height = 24, .width = 24, .channels = 1},
                                                  .class_count = 3};

/// Two convolutions with batch norm, of 16 and 32 filters, and a fully connected layer.
inline carillon::Network shapes_network(const carillon::NetworkSettings& settings) {
  using namespace carillon;
  const auto layers = [settings](Graph& graph) {
    const auto weights = [](int number) { return Initializer{Initializer::Kind::truncated_normal, 0.1f, number}; };
    const ImageShape& image = settings.image;
    Value x = image_input(graph, "input",
                          {.sample = {image.height, image.width, image.channels}, .scale = settings.pixel_scale});
    int number = 0;
    for (const int filters : {16, 32}) {
      const std::string name = "block" + std::to_string(++number);
      x = conv2d(graph, name + "/conv", x, {.filters = filters, .kernel = 3, .weights = weights(number), .biases = {}});
      x = relu(graph, name + "/relu", batch_norm(graph, name + "/norm", x));
      x = max_pool(graph, name + "/pool", x, {.window = 2, .stride = 2});
    }
    x = global_avg_pool(graph, "pool", x);
    return dense(graph, "logits", x, {.units = settings.outputs, .weights = weights(9)});
  };
  return make_network("shapes", settings, layers);
}

/// The defaults of the options, which --help shows.
inline carillon::ProgramSpec shapes_program() {
  return {.data_set = "drawn shapes",
          .networks = {{"shapes", shapes_network}},
          .defaults = {.data = {.files = {"data/shapes/train-*"},
                                .record_form = {.make_decoder = carillon::grey_records, .schema = shape_records},
                                .batch_size = 50,
                                .pixel_scale = 1.0 / 255.0},
                       .optimizer = {.max_steps = 300,
                                     .schedule = {.kind = carillon::ScheduleKind::constant, .learning_rate = 0.1}},
                       .checkpoint = {.train_dir = "runs/shapes"}}};
}
