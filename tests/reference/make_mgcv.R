# Write mgcv.json: P-splines of mgcv on the diabetes data of scikit-learn, not scaled.
#
# Run, with R and its package mgcv installed,
#     Rscript tests/reference/make_mgcv.R FOLDER
# where FOLDER is the folder sklearn/datasets/data of scikit-learn.

library(mgcv)

folder <- commandArgs(trailingOnly = TRUE)[1]
features <- read.table(gzfile(file.path(folder, "diabetes_data_raw.csv.gz")))
x <- features[[9]]  # s5
w <- features[[1]] / 50  # age: weights that are not equal
y <- scan(gzfile(file.path(folder, "diabetes_target.csv.gz")), quiet = TRUE)

every <- 10  # rows of which fitted values are stored
closed <- list(x = seq(min(x), max(x), length.out = 18))
width <- diff(range(x)) / 17
# cubic splines of an open curve need three more knots on either side
open <- list(x = c(min(x) - (3:1) * width, closed$x, max(x) + (1:3) * width))

# without this, a smoothing parameter multiplies a penalty that mgcv has rescaled
unscaled <- gam.control(scalePenalty = FALSE, epsilon = 1e-13, mgcv.tol = 1e-13)

entry <- function(name, basis, knots, weights = rep(1, length(y)), sp = NULL) {
  k <- if (basis == "ps") 20 else 17
  fit <- gam(y ~ s(x, bs = basis, k = k, m = c(2, 2)), knots = knots, weights = weights,
             sp = sp, method = "GCV.Cp", control = unscaled)
  number <- function(values) paste(sprintf("%.17g", values), collapse = ", ")
  sprintf('  "%s": {\n    "sp": %s,\n    "edf": %s,\n    "gcv": %s,\n    "fitted": [%s]\n  }',
          name, number(fit$sp %||% sp), number(sum(fit$edf)), number(fit$gcv.ubre),
          number(fitted(fit)[seq(1, length(y), every)]))
}

`%||%` <- function(one, other) if (length(one)) one else other

entries <- c(
  sprintf('  "version": "%s"', packageVersion("mgcv")),
  entry("open, 0.1", "ps", open, sp = 0.1),
  entry("open, 10", "ps", open, sp = 10),
  entry("open, 1000", "ps", open, sp = 1000),
  entry("weighted, 10", "ps", open, weights = w, sp = 10),
  entry("closed, 10", "cp", closed, sp = 10),
  entry("open, chosen", "ps", open)
)
writeLines(c("{", paste(entries, collapse = ",\n"), "}"), "tests/reference/mgcv.json")
