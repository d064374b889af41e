// mnist_eval: precision @ 1 of a checkpoint of mnist_train.
//
//   mnist_eval --data 'data/mnist/test-*' --checkpoint runs/mnist
#include "carillon/app/app.h"
#include "carillon/app/program.h"

int main(int argc, char** argv) {
  using namespace carillon;
  return run_app("mnist_eval", argc, argv, [&](const Mpi& mpi) { return evaluate(mnist_program(), argc, argv, mpi); });
}
