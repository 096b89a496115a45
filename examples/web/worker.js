// Caches the page's files, so that it opens without a network. With a network, files come from there.
const FILES = ["./", "demo.css", "demo.js"];

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open("faintly-demo").then((cache) => cache.addAll(FILES)));
});

self.addEventListener("fetch", (event) => {
  event.respondWith(fetch(event.request).catch(() => caches.match(event.request)));
});
