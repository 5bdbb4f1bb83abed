// Keeps each page that was read, so that it opens without a network too; where there is one, the newest comes.
addEventListener("install", () => skipWaiting());
addEventListener("activate", event => event.waitUntil(clients.claim()));
addEventListener("fetch", event => {
  if (event.request.method !== "GET") return;
  event.respondWith(caches.open("brrr").then(async kept => {
    try {
      const found = await fetch(event.request);
      if (found.ok) await kept.put(event.request, found.clone());
      return found;
    } catch (error) {
      const found = await kept.match(event.request, {ignoreSearch: true});
      if (found) return found;
      throw error;
    }
  }));
});
